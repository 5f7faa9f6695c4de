"""Every call on a mount that cannot be changed, beside ext4 that is mounted so."""

import os
import subprocess

import pytest
from mount_tools import Volume, needs_fuse
from posix_calls import CALLS, furnish
from posix_pair import KINDS, compare_seen, opened, require_peer, tried

pytestmark = needs_fuse


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    base = tmp_path_factory.mktemp("read-only")
    require_peer(base)
    theirs = base / "theirs"
    theirs.mkdir()
    volume = Volume(base / "home", base / "mnt").create()
    mounted = False
    try:
        volume.mount()
        for side in (volume.folder, theirs):
            os.chdir(side)
            furnish()
        os.chdir("/")
        volume.remount("--ro")
        subprocess.run(["mount", "--bind", theirs, theirs], check=True)
        mounted = True
        subprocess.run(["mount", "-o", "remount,bind,ro", theirs], check=True)
        yield volume.folder, theirs
    finally:
        os.chdir("/")
        volume.close()
        if mounted:
            subprocess.run(["umount", theirs], check=True)


def test_every_call(pair):
    paths = [*KINDS, "full", "to folder", "none", "none/x", "file/x", "folder/new", "folder/"]

    def calls():
        return {
            f"{name} {path}": tried(call, path) for name, call in CALLS.items() for path in paths
        }

    check(pair, calls)


def test_every_way_to_open(pair):
    def ways():
        seen = {}
        for way in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
            for flags in (0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_APPEND):
                for path in (*KINDS, "full", "none"):
                    seen[f"{way} {flags} {path}"] = opened(path, way | flags | os.O_NONBLOCK)
        fd = os.open("file", os.O_RDONLY)
        seen["chmod"] = tried(os.fchmod, fd, 0o600)
        seen["utime"] = tried(os.utime, fd)
        seen["xattr"] = tried(os.setxattr, fd, "user.a", b"1")
        seen["fsync"] = tried(os.fsync, fd)
        seen["access"] = [os.access("file", bits) for bits in (os.R_OK, os.W_OK)]
        seen["device"] = os.access("char", os.W_OK)
        seen["flag"] = os.statvfs(".").f_flag & os.ST_RDONLY
        os.close(fd)
        return seen

    check(pair, ways)


def check(pair, case):
    """As compare(), in what is there: no folder can be made."""

    def seen(side):
        os.chdir(side)
        try:
            return case()
        finally:
            os.chdir("/")

    compare_seen(case.__name__, *map(seen, pair))
