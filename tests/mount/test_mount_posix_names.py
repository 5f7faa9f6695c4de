"""Every call that takes a name, on every kind of name, beside ext4."""

import os
import stat

import pytest
from mount_tools import needs_fuse
from posix_calls import CALLS, furnish
from posix_pair import KINDS, census, compare, facts, folder, make, opened, tried

pytest_plugins = ["mounted_pair"]
pytestmark = needs_fuse


def long_path(length):
    """Of "file", through as many "./" as it takes."""
    return "./" * ((length - 4) // 2) + ("/" if length % 2 else "") + "file"


def check(pair, paths):
    def every_call():
        seen = {}
        for path in paths:
            for name, call in CALLS.items():
                with folder(str(len(seen))):
                    furnish()
                    shown = path if len(path) < 40 else f"{path[:8]}... {len(path)}"
                    seen[f"{name} {shown!r}"] = {"got": tried(call, path), **census()}
        return seen

    every_call.__name__ = f"every_call_{paths[0].replace('/', '_')[:20]}"
    compare(pair, every_call)


@pytest.mark.parametrize("kind", [*KINDS, "full", "to folder", "to full", "none"])
def test_of_every_kind(pair, kind):
    check(pair, [kind])


@pytest.mark.parametrize("kind", [*KINDS, "full", "to folder", "none"])
def test_below_every_kind(pair, kind):
    check(pair, [f"{kind}/x"])


@pytest.mark.parametrize("kind", ["file", "folder", "full", "link", "dangling", "loop", "none"])
def test_with_a_slash_at_the_end(pair, kind):
    check(pair, [f"{kind}/"])


@pytest.mark.parametrize("path", [".", "..", "folder/.", "folder/..", "file/.", "file/..", "/"])
def test_of_what_every_directory_has(pair, path):
    if path == "/":
        check(pair, ["to folder/", "full/..", "to full/.."])
    else:
        check(pair, [path])


def test_names_that_are_too_long(pair):
    check(pair, ["x" * 255, "x" * 256, "folder/" + "x" * 255, "folder/" + "x" * 256, ""])


def test_paths_that_are_too_long(pair):
    check(pair, [long_path(4095), long_path(4096), "x" * 4096])


def test_targets_that_are_too_long(pair):
    def targets():
        return {
            length: (tried(os.symlink, "x" * length, f"l{length}"), facts(f"l{length}"))
            for length in (0, 1, 59, 60, 61, 255, 256, 1023, 4094, 4095, 4096)
        }

    compare(pair, targets)


def test_links_that_are_followed_many_times(pair):
    def chains():
        make("file", "l0")
        for number in range(45):
            os.symlink(f"l{number}", f"l{number + 1}")
        return {
            number: tried(
                os.stat,
                f"l{number}",
            )
            != "ELOOP"
            for number in range(46)
        }

    compare(pair, chains)


def test_modes_of_what_is_made(pair):
    def modes():
        seen = {}
        for umask in (0, 0o022, 0o077, 0o177, 0o777):
            for mode in (0, 0o644, 0o755, 0o777, 0o1777, 0o2755, 0o4755, 0o7777):
                with folder(f"{umask}-{mode}"):
                    before = os.umask(umask)
                    try:
                        os.mkdir("folder", mode)
                        os.mkfifo("fifo", mode)
                        os.mknod("node", stat.S_IFCHR | mode, os.makedev(1, 3))
                        os.mknod("file", stat.S_IFREG | mode)
                        opened("opened", os.O_CREAT | os.O_RDONLY, mode)
                    finally:
                        os.umask(before)
                    seen[f"{umask:o} {mode:o}"] = census()
        return seen

    compare(pair, modes)


def test_numbers_of_devices(pair):
    def devices():
        seen = {}
        for major, minor in ((0, 0), (1, 2), (255, 255), (256, 0), (0, 256), (4095, 1048575)):
            for kind in (stat.S_IFCHR, stat.S_IFBLK):
                name = f"{major}-{minor}-{kind}"
                seen[name] = tried(os.mknod, name, kind | 0o600, os.makedev(major, minor))
        return seen, census()

    compare(pair, devices)


def test_types_that_mknod_refuses(pair):
    def types():
        return {
            kind: (tried(os.mknod, str(kind), kind | 0o600), facts(str(kind)))
            for kind in (0, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFSOCK, 0o030000, 0o170000)
        }

    compare(pair, types)
