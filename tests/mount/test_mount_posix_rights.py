"""Who may do what, beside ext4: classes of permissions, sticky directories, set-ID bits."""

import itertools
import mmap
import os
import stat

import pytest
from mount_tools import needs_fuse
from posix_pair import (
    OTHER,
    USER,
    acting,
    census,
    compare,
    facts,
    fallocate,
    folder,
    make,
    opened,
    renameat2,
    tried,
    user,
    with_and_without_gathering,
)

pytest_plugins = ["mounted_pair"]
pytestmark = needs_fuse

GROUP = 4321
IN_DIRECTORY = {
    "stat": lambda: os.stat("d/file") and None,
    "list": lambda: sorted(os.listdir("d")),
    "read": lambda: opened("d/file", os.O_RDONLY),
    "write": lambda: opened("d/file", os.O_WRONLY),
    "create": lambda: opened("d/new", os.O_CREAT | os.O_WRONLY),
    "create there": lambda: opened("d/file", os.O_CREAT | os.O_WRONLY),
    "mkdir": lambda: os.mkdir("d/new"),
    "mkdir there": lambda: os.mkdir("d/file"),
    "mkfifo": lambda: os.mkfifo("d/new"),
    "mknod": lambda: os.mknod("d/new", stat.S_IFCHR | 0o600, os.makedev(1, 3)),
    "symlink": lambda: os.symlink("x", "d/new"),
    "link": lambda: os.link("mine", "d/new"),
    "link out": lambda: os.link("d/file", "new"),
    "unlink": lambda: os.unlink("d/file"),
    "unlink none": lambda: os.unlink("d/none"),
    "rmdir": lambda: os.rmdir("d/folder"),
    "rmdir self": lambda: os.rmdir("d"),  # It is not empty.
    "rename in": lambda: os.rename("mine", "d/new"),
    "rename over": lambda: os.rename("mine", "d/file"),
    "rename out": lambda: os.rename("d/file", "new"),
    "rename within": lambda: os.rename("d/file", "d/new"),
    "rename folder out": lambda: os.rename("d/folder", "new"),
    "rename folder within": lambda: os.rename("d/folder", "d/new"),
    "rename self": lambda: os.rename("d", "e"),
    "exchange": lambda: renameat2("mine", "d/file", 2),
    "truncate": lambda: os.truncate("d/file", 0),
    "chmod": lambda: os.chmod("d/file", 0o600),
    "chown": lambda: os.chown("d/file", OTHER, OTHER),
    "utime": lambda: os.utime("d/file"),
    "chdir": lambda: os.chdir("d") or os.chdir(".."),
    "xattr": lambda: os.setxattr("d/file", "user.a", b"1"),
    "statvfs": lambda: os.statvfs("d/file").f_namemax,
    "readlink": lambda: os.readlink("d/link"),
}


@pytest.mark.parametrize("owner", [USER, 0])
def test_of_a_directory(pair, owner):
    def rights():
        seen = {}
        for bits, (name, call) in itertools.product(range(8), IN_DIRECTORY.items()):
            with folder(str(len(seen))):
                os.mkdir("d")
                make("file", "d/file")
                os.mkdir("d/folder")
                os.symlink("x", "d/link")
                make("file", "mine")
                for path in ("d/file", "d/folder", "mine"):
                    os.chown(path, USER, USER)
                os.chown("d", owner, owner)
                os.chmod("d", bits << 6 if owner == USER else bits)
                with user(USER):
                    got = tried(call)
                os.chmod("e" if os.path.exists("e") else "d", 0o777)
                seen[f"{bits} {name}"] = {"got": got, **census()}
        return seen

    rights.__name__ = f"rights_{owner}"
    compare(pair, rights)


def test_which_class_counts(pair):
    """The owner's bits for the owner, though the group's may say more."""

    def classes():
        seen = {}
        who = {"owner": (USER, USER, ()), "group": (OTHER, GROUP, ())}
        who |= {"member": (OTHER, OTHER, (GROUP,)), "other": (OTHER, OTHER, (1,))}
        for bits in (0o400, 0o040, 0o004, 0o200, 0o020, 0o002, 0o077, 0o707, 0o770, 0):
            make("file", "file")
            os.mkdir("d")
            for path in ("file", "d"):
                os.chown(path, USER, GROUP)
                os.chmod(path, bits)
            for name, (uid, gid, groups) in who.items():
                with user(uid, gid, groups):
                    seen[f"{bits:o} {name}"] = (
                        opened("file", os.O_RDONLY),
                        opened("file", os.O_WRONLY),
                        tried(os.listdir, "d"),
                        opened("d/new", os.O_CREAT | os.O_WRONLY),
                    )
            os.unlink("file")
            os.chmod("d", 0o777)
            for name in os.listdir("d"):
                os.unlink(f"d/{name}")
            os.rmdir("d")
        return seen

    compare(pair, classes)


@pytest.mark.parametrize("kind", ["file", "folder", "fifo", "link"])
def test_sticky_directories(pair, kind):
    calls = {
        "unlink": lambda: os.unlink("d/x"),
        "rmdir": lambda: os.rmdir("d/x"),
        "rename out": lambda: os.rename("d/x", "new"),
        "rename within": lambda: os.rename("d/x", "d/new"),
        "rename over": lambda: os.rename("mine", "d/x"),
        "rename over within": lambda: os.rename("d/mine", "d/x"),
        "exchange": lambda: renameat2("mine", "d/x", 2),
        "link": lambda: os.link("d/x", "d/new", follow_symlinks=False),
    }

    def sticky():
        seen = {}
        owners = (0, USER, OTHER)
        for above, owner, actor in itertools.product(owners, owners, owners):
            for name, call in calls.items():
                with folder(str(len(seen))):
                    os.mkdir("d")
                    for path in ("d/x", "mine", "d/mine"):
                        make(kind, path)
                        os.lchown(path, owner if path == "d/x" else actor, 0)
                    if os.path.lexists("target"):
                        os.chown("target", actor, 0)
                    os.chown("d", above, 0)
                    os.chmod("d", 0o1777)
                    with acting((actor,) if actor else None):
                        got = tried(call)
                    seen[f"{above} {owner} {actor} {name}"] = (got, sorted(os.listdir("d")))
        return seen

    sticky.__name__ = f"sticky_{kind}"
    compare(pair, sticky)


@pytest.mark.parametrize("kind", ["file", "folder", "fifo", "char"])
def test_changing_modes(pair, kind):
    def modes():
        seen = {}
        who = {"root": None, "owner": (USER, USER, ()), "member": (USER, USER, (GROUP,))}
        who |= {"other": (OTHER, OTHER, (GROUP,))}
        make(kind, "x")
        os.chown("x", USER, GROUP)
        for mode in (0, 0o777, 0o1777, 0o2777, 0o2767, 0o4777, 0o6777, 0o7777, 0o6666):
            for name, identity in who.items():
                os.chmod("x", 0o600)
                with acting(identity):
                    got = tried(os.chmod, "x", mode)
                seen[f"{mode:o} {name}"] = (got, facts("x"))
        return seen

    modes.__name__ = f"modes_{kind}"
    compare(pair, modes)


@pytest.mark.parametrize("kind", ["file", "folder", "fifo", "socket", "char", "link"])
def test_changing_owners(pair, kind):
    def owners():
        seen = {}
        who = {"root": None, "owner": (USER, USER, (GROUP,)), "other": (OTHER, OTHER, (GROUP,))}
        uids, gids = (-1, USER, OTHER, 0), (-1, USER, GROUP, 77)
        for mode in (0o755, 0o6755, 0o6744, 0o2745, 0o2754, 0o7777, 0o4644):
            for uid, gid, name in itertools.product(uids, gids, who):
                make(kind, "x")
                if kind != "link":
                    os.chmod("x", mode)
                os.lchown("x", USER, USER)
                if kind != "link":
                    os.chmod("x", mode)
                with acting(who[name]):
                    got = tried(os.lchown, "x", uid, gid)
                seen[f"{mode:o} {name} {uid} {gid}"] = (got, facts("x"))
                os.rmdir("x") if kind == "folder" else os.unlink("x")
        return seen

    owners.__name__ = f"owners_{kind}"
    compare(pair, owners)


def write_mapped(fd):
    with mmap.mmap(fd, 0) as memory:
        memory[0:1] = b"X"
        memory.flush()


def copy_into(fd):
    source = os.open("source", os.O_RDONLY)
    try:
        return os.copy_file_range(source, fd, 3, 0, 0)
    finally:
        os.close(source)


WRITES = {
    "write": lambda fd: os.pwrite(fd, b"x", 0),
    "write nothing": lambda fd: os.pwrite(fd, b"", 0),
    "writev": lambda fd: os.writev(fd, [b"x", b"y"]),
    "ftruncate": lambda fd: os.ftruncate(fd, 2),
    "ftruncate same": lambda fd: os.ftruncate(fd, 7),
    "truncate": lambda fd: os.truncate("x", 3),
    "truncate same": lambda fd: os.truncate("x", 7),
    "open": lambda fd: opened("x", os.O_RDWR),
    "open cut": lambda fd: opened("x", os.O_WRONLY | os.O_TRUNC),
    "allocate": lambda fd: fallocate(fd, 0, 0, 100),
    "punch": lambda fd: fallocate(fd, 3, 0, 4),
    "zero": lambda fd: fallocate(fd, 16, 0, 4),
    "copy": copy_into,
    "map": write_mapped,
    "read": lambda fd: os.pread(fd, 1, 0),
    "utime": lambda fd: os.utime(fd),
    "xattr": lambda fd: os.setxattr(fd, "user.a", b"1"),
    "fsync": os.fsync,
}


@with_and_without_gathering
@pytest.mark.parametrize("who", ["root", "owner", "other", "member"])
def test_set_id_bits_when_written(pair, who):
    def bits():
        seen = {}
        identity = {"owner": (USER, USER, ()), "other": (OTHER, OTHER, ())}
        identity |= {"member": (OTHER, GROUP, ())}
        make("file", "source")
        for mode in (0o6777, 0o4777, 0o2777, 0o2767, 0o6767, 0o2676, 0o6666, 0o7777, 0o4666):
            for name, call in WRITES.items():
                make("file", "x")
                os.chown("x", USER, GROUP)
                os.chmod("x", mode)
                with acting(identity.get(who)):
                    fd = os.open("x", os.O_RDWR)
                    got = tried(call, fd)
                    through = oct(os.fstat(fd).st_mode)
                    os.close(fd)
                seen[f"{mode:o} {name}"] = (got, through, facts("x"))
                os.unlink("x")
        return seen

    bits.__name__ = f"bits_{who}"
    compare(pair, bits)


def test_the_group_of_what_is_made(pair):
    def groups():
        seen = {}
        who = {"root": None, "member": (USER, USER, (GROUP,)), "other": (USER, USER, ())}
        for above, (name, identity) in itertools.product((0o777, 0o2777, 0o3777), who.items()):
            with folder(f"{above}-{name}"):
                os.chown(".", 0, GROUP)
                os.chmod(".", above)
                with acting(identity):
                    for mode in (0o755, 0o2755, 0o2745, 0o4755, 0o6777):
                        os.mkdir(f"d{mode:o}", mode)
                        opened(f"f{mode:o}", os.O_CREAT | os.O_WRONLY, mode)
                        os.mkfifo(f"p{mode:o}", mode)
                    os.symlink("x", "l")
                    os.mkdir("d755/below")
                seen[f"{above:o} {name}"] = census()
        return seen

    compare(pair, groups)


def test_links_to_what_belongs_to_others(pair):
    """As the kernel's settings say (fs.protected_hardlinks, fs.protected_symlinks, ...)."""

    def links():
        seen = {}
        os.mkdir("d")
        os.chmod("d", 0o1777)
        for kind in ("file", "fifo", "link", "folder", "char"):
            for mode in (0o600, 0o666, 0o4666, 0o2777):
                with folder(f"{kind}-{mode}"):
                    make(kind, "x")
                    if kind != "link":
                        os.chmod("x", mode)
                    with user(USER):
                        seen[f"{kind} {mode:o}"] = tried(os.link, "x", "y", follow_symlinks=False)
        os.symlink("/etc/hostname", "d/l")
        os.lchown("d/l", OTHER, OTHER)
        make("file", "d/f")
        os.chown("d/f", OTHER, OTHER)
        os.chmod("d/f", 0o666)
        os.mkfifo("d/p")
        os.chown("d/p", OTHER, OTHER)
        os.chmod("d/p", 0o666)
        with user(USER):
            for name in "lfp":
                flags = os.O_RDWR | os.O_NONBLOCK
                seen[f"open {name}"] = opened(f"d/{name}", flags)
                seen[f"create {name}"] = opened(f"d/{name}", flags | os.O_CREAT)
        seen["root l"] = opened("d/l", os.O_RDONLY)
        seen["root create f"] = opened("d/f", os.O_RDWR | os.O_CREAT)
        return seen

    compare(pair, links)


def test_capabilities_go_with_a_write(pair):
    def capabilities():
        seen = {}
        value = bytes.fromhex("00000002" + "00040000" + "00" * 12)
        make("file", "source")
        for name, call in {**WRITES, "chown": lambda fd: os.fchown(fd, 5, 5)}.items():
            make("file", "x")
            os.setxattr("x", "security.capability", value)
            fd = os.open("x", os.O_RDWR)
            got = tried(call, fd)
            os.close(fd)
            seen[name] = (got, os.listxattr("x"))
            os.unlink("x")
        return seen

    compare(pair, capabilities)
