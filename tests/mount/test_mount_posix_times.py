"""Which times each call changes, of what, and which it must not, beside ext4."""

import ctypes
import mmap
import os
import time

import pytest
from mount_tools import needs_fuse
from posix_pair import (
    LIBC,
    OTHER,
    USER,
    changed,
    checked,
    compare,
    fallocate,
    folder,
    make,
    opened,
    renameat2,
    tick,
    times,
    tried,
    user,
    with_and_without_gathering,
)

pytest_plugins = ["mounted_pair"]
pytestmark = [needs_fuse, with_and_without_gathering]

KINDS = ("file", "folder", "fifo", "socket", "char", "block", "link")
NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2
FUTURE = 4_000_000_000_123_456_789


def with_open(flags, call):
    def do():
        fd = os.open("x", flags)
        try:
            return call(fd)
        finally:
            os.close(fd)

    return do


# On "x", in a folder with "full" and "second", of the same kind, "there/" and "linked", a second
# name of x where it can have one.
CALLS = {
    "chmod": lambda: os.chmod("x", 0o711),
    "chmod same": lambda: os.chmod("x", os.stat("x").st_mode & 0o7777),
    "chown": lambda: os.lchown("x", 1, 2),
    "chown one": lambda: os.lchown("x", -1, 2),
    "chown none": lambda: os.lchown("x", -1, -1),
    "link": lambda: os.link("x", "new", follow_symlinks=False),
    "link there": lambda: os.link("x", "second", follow_symlinks=False),
    "unlink": lambda: os.unlink("x"),
    "unlink other": lambda: os.unlink("linked"),
    "rmdir": lambda: os.rmdir("x"),
    "rename": lambda: os.rename("x", "new"),
    "rename away": lambda: os.rename("x", "there/new"),
    "rename over": lambda: os.rename("x", "second"),
    "rename over it": lambda: os.rename("second", "x"),
    "rename over its name": lambda: os.rename("second", "linked"),
    "rename to itself": lambda: os.rename("x", "linked"),
    "exchange": lambda: renameat2("x", "second", 2),
    "exchange away": lambda: renameat2("x", "there/other", 2),
    "rename over full": lambda: os.rename("x", "full"),
    "mkdir there": lambda: os.mkdir("x"),
    "symlink there": lambda: os.symlink("y", "x"),
    "make": lambda: os.mkdir("new"),
    "make below": lambda: os.mkdir("x/new"),
    "create below": lambda: opened("x/new", os.O_CREAT | os.O_RDWR),
    "symlink below": lambda: os.symlink("y", "x/new"),
    "utime": lambda: os.utime("x", follow_symlinks=False),
    "utime same": lambda: os.utime(
        "x", ns=(os.lstat("x").st_atime_ns, os.lstat("x").st_mtime_ns), follow_symlinks=False
    ),
    "open": lambda: opened("x", os.O_RDONLY | os.O_NONBLOCK),
    "open for writing": lambda: opened("x", os.O_WRONLY | os.O_NONBLOCK),
    "open cut": lambda: opened("x", os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK),
    "open create": lambda: opened("x", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK),
    "open excl": lambda: opened("x", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NONBLOCK),
    "truncate": lambda: os.truncate("x", 3),
    "truncate same": lambda: os.truncate("x", 7),
    "truncate longer": lambda: os.truncate("x", 70),
    "truncate negative": lambda: os.truncate("x", -1),
    "setxattr": lambda: os.setxattr("x", "trusted.a", b"1", follow_symlinks=False),
    "setxattr user": lambda: os.setxattr("x", "user.a", b"1", follow_symlinks=False),
    "removexattr": lambda: os.removexattr("x", "trusted.there", follow_symlinks=False),
    "removexattr none": lambda: os.removexattr("x", "trusted.none", follow_symlinks=False),
    "getxattr": lambda: os.getxattr("x", "trusted.there", follow_symlinks=False),
    "stat": lambda: os.stat("x") and None,
    "readlink": lambda: os.readlink("x") and None,
    "list": lambda: os.listdir("x"),
    "access": lambda: os.access("x", os.R_OK),
}
FILE_CALLS = {
    "write": with_open(os.O_RDWR, lambda fd: os.write(fd, b"x")),
    "write nothing": with_open(os.O_RDWR, lambda fd: os.write(fd, b"")),
    "append": with_open(os.O_RDWR | os.O_APPEND, lambda fd: os.write(fd, b"x")),
    "write far": with_open(os.O_RDWR, lambda fd: os.pwrite(fd, b"x", 100_000)),
    "ftruncate": with_open(os.O_RDWR, lambda fd: os.ftruncate(fd, 3)),
    "ftruncate same": with_open(os.O_RDWR, lambda fd: os.ftruncate(fd, 7)),
    "ftruncate refused": with_open(os.O_RDONLY, lambda fd: os.ftruncate(fd, 3)),
    "allocate": with_open(os.O_RDWR, lambda fd: os.posix_fallocate(fd, 0, 100)),
    "allocate inside": with_open(os.O_RDWR, lambda fd: os.posix_fallocate(fd, 0, 3)),
    "allocate behind": with_open(os.O_RDWR, lambda fd: fallocate(fd, 1, 8192, 100)),
    "punch": with_open(os.O_RDWR, lambda fd: fallocate(fd, 3, 0, 4)),
    "zero": with_open(os.O_RDWR, lambda fd: fallocate(fd, 16, 0, 4)),
    "fsync": with_open(os.O_RDWR, os.fsync),
    "fchmod": with_open(os.O_RDWR, lambda fd: os.fchmod(fd, 0o700)),
    "fchown": with_open(os.O_RDWR, lambda fd: os.fchown(fd, 1, 1)),
    "read nothing": with_open(os.O_RDWR, lambda fd: os.read(fd, 0)),
    "seek": with_open(os.O_RDWR, lambda fd: os.lseek(fd, 3, os.SEEK_DATA)),
    "copy into": with_open(os.O_RDWR, lambda fd: copy("second", fd)),
}
WATCHED = (".", "x", "second", "linked", "there", "there/other", "new", "there/new", "full")


def copy(source, fd):
    with open(source, "rb") as file:
        return os.copy_file_range(file.fileno(), fd, 3, 0, 0)


def furnish(kind):
    os.mkdir("there")
    for name in ("x", "second", "there/other"):
        make(kind, name)
    os.setxattr("x", "trusted.there", b"1", follow_symlinks=False)
    os.makedirs("full/inside")
    if kind != "folder":
        os.link("x", "linked", follow_symlinks=False)
    for name in WATCHED:
        if os.path.lexists(name):
            # All the same, and in the future: the next read does not set the time of access.
            os.utime(name, ns=(FUTURE, FUTURE), follow_symlinks=False)


def after_a_tick(calls, prepare, watched):
    """{name: what was seen of the call by that name}, each in a folder of its own."""
    before = {}
    for number in range(len(calls)):
        with folder(str(number)):
            prepare()
    tick()
    for number, name in enumerate(calls):
        os.chdir(str(number))
        before[name] = {path: times(path) for path in watched}
        os.chdir("..")
    tick()
    seen = {}
    for number, (name, call) in enumerate(calls.items()):
        os.chdir(str(number))
        got = tried(call)
        after = {path: times(path) for path in watched}
        differ = {path: changed(before[name][path], after[path]) for path in watched}
        seen[name] = {"got": got, **{path: which for path, which in differ.items() if which}}
        os.chdir("..")
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_of_every_call(pair, kind):
    def every_call():
        calls = {**CALLS, **FILE_CALLS} if kind == "file" else CALLS
        return after_a_tick(calls, lambda: furnish(kind), WATCHED)

    every_call.__name__ = f"times_{kind}"
    compare(pair, every_call)


def test_of_what_is_new(pair):
    """All three are the same, and that of now."""

    def new():
        seen = {}
        for kind in KINDS:
            began = time.time_ns() - 20_000_000
            make(kind, kind)
            now = time.time_ns() + 20_000_000
            found = times(kind)
            same = found["a"] == found["m"] == found["c"]
            seen[kind] = (same or kind == "file", all(began <= at <= now for at in found.values()))
        return seen

    compare(pair, new)


def test_of_who_has_no_right(pair):
    def refused():
        calls = {
            "chmod": lambda: os.chmod("x", 0o777),
            "chown": lambda: os.chown("x", USER, USER),
            "chown none": lambda: os.chown("x", -1, -1),
            "truncate": lambda: os.truncate("x", 0),
            "utime": lambda: os.utime("x"),
            "utime to": lambda: os.utime("x", ns=(1, 1)),
            "unlink": lambda: os.unlink("d/y"),
            "create": lambda: opened("d/z", os.O_CREAT | os.O_RDWR),
            "link": lambda: os.link("x", "d/z"),
            "rename": lambda: os.rename("d/y", "d/z"),
            "xattr": lambda: os.setxattr("x", "user.a", b"1"),
        }

        def prepare():
            make("file", "x")
            os.chmod("x", 0o644)
            os.mkdir("d")
            make("file", "d/y")

        def as_user(call):
            def do():
                with user(USER):
                    return tried(call)

            return do

        asked = {name: as_user(call) for name, call in calls.items()}
        return after_a_tick(asked, prepare, (".", "x", "d", "d/y"))

    compare(pair, refused)


@pytest.mark.parametrize("kind", ["file", "folder", "fifo", "link"])
def test_that_are_set(pair, kind):
    second = 1_000_000_000
    moments = (0, 1, 999_999_999, second, -1, -second, -second - 1, -(1 << 31) * second + second)
    moments += ((1 << 31) * second - 1, (1 << 31) * second + 7, (1 << 32) * second + 123_456_789)
    moments += (4_102_444_800 * second + 5, -2_000_000_000 * second + 5)

    def moments_of():
        make(kind, "x")
        seen = {}
        for moment in moments:
            got = tried(os.utime, "x", ns=(moment, moment + 1), follow_symlinks=False)
            found = times("x")
            seen[moment] = (got, found["a"], found["m"])
        return seen

    moments_of.__name__ = f"moments_{kind}"
    compare(pair, moments_of)


def utimensat(path, access, change):
    both = (ctypes.c_long * 4)(*access, *change)
    checked(LIBC.utimensat(-100, os.fsencode(path), both, 0x100))


def test_now_and_not_at_all(pair):
    def special():
        wishes = {"now": (0, NOW), "omit": (0, OMIT), "set": (5, 6), "wrong": (5, 1_000_000_000)}
        wishes["negative"] = (5, -1)
        calls = {
            f"{kind} {one} {other}": (
                lambda one=one, other=other, kind=kind: utimensat(kind, wishes[one], wishes[other])
            )
            for kind in ("file", "folder", "link")
            for one in wishes
            for other in wishes
        }

        def prepare():
            for kind in ("file", "folder", "link"):
                make(kind, kind)

        return after_a_tick(calls, prepare, (".", "file", "folder", "link"))

    compare(pair, special)


def test_who_may_set_them(pair):
    def who_may():
        wishes = {"now": (0, NOW), "omit": (0, OMIT), "set": (5, 6)}
        seen = {}
        for mode in (0o600, 0o666, 0o444, 0o000, 0o200):
            for uid in (USER, OTHER):
                for one in wishes:
                    for other in wishes:
                        make("file", "x")
                        os.chown("x", USER, USER)
                        os.chmod("x", mode)
                        with user(uid):
                            got = tried(utimensat, "x", wishes[one], wishes[other])
                        seen[f"{mode:o} {uid} {one} {other}"] = got
                        os.unlink("x")
        return seen

    compare(pair, who_may)


def test_of_access(pair):
    """The first read after a change sets it, where the read is not answered from memory."""

    def reads():
        calls = {
            "readlink": lambda: os.readlink("link") and None,
            "follow": lambda: os.stat("link").st_size,
            "list": lambda: os.listdir("folder"),
            "list twice": lambda: (os.listdir("folder"), os.listdir("folder")),
            "look": lambda: os.stat("folder/inside") and None,
        }

        def prepare():
            make("link", "link")
            os.makedirs("folder/inside")

        return after_a_tick(calls, prepare, (".", "link", "folder", "target"))

    compare(pair, reads)


def test_of_a_mapping(pair):
    def mapped_times():
        def change(sync):
            with open("x", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
                memory[0:1] = b"X"
                if sync:
                    memory.flush()

        def prepare():
            make("file", "x")
            os.utime("x", ns=(FUTURE, FUTURE))

        calls = {"synced": lambda: change(True), "not yet": lambda: change(False)}
        return after_a_tick(calls, prepare, ("x",))

    compare(pair, mapped_times)
