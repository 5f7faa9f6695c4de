"""Locks between processes, beside ext4."""

import fcntl
import os
import signal
import struct
import time

import pytest
from mount_tools import needs_fuse
from posix_pair import (
    compare,
    in_child,
    make,
    tried,
)

pytest_plugins = ["mounted_pair"]
pytestmark = needs_fuse

OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38


def lock(fd, kind, begin=0, length=0, command=fcntl.F_SETLK):
    wanted = struct.pack("hhqqi", kind, os.SEEK_SET, begin, length, 0)
    got = fcntl.fcntl(fd, command, wanted)
    if command in (fcntl.F_GETLK, OFD_GETLK):
        kind, _, begin, length, pid = struct.unpack("hhqqi", got)
        return kind, begin, length, pid > 0
    return None


def elsewhere(call, flags=os.O_RDWR):
    """What another process gets."""

    def run():
        fd = os.open("x", flags)
        try:
            return tried(call, fd)
        finally:
            os.close(fd)

    return in_child(run)


def test_locks_of_files(pair):
    def flocks():
        make("file", "x")
        seen = {}
        fd = os.open("x", os.O_RDONLY)
        for mine in (fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN):
            fcntl.flock(fd, mine)
            for other in (fcntl.LOCK_SH, fcntl.LOCK_EX):
                seen[f"{mine} {other}"] = elsewhere(
                    lambda them, other=other: fcntl.flock(them, other | fcntl.LOCK_NB)
                )
        second = os.open("x", os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX)
        seen["own second"] = tried(fcntl.flock, second, fcntl.LOCK_SH | fcntl.LOCK_NB)
        copy = os.dup(fd)
        seen["copy"] = tried(fcntl.flock, copy, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.close(fd)
        seen["closed one"] = tried(fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(copy)
        seen["closed both"] = tried(fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink("x")
        seen["no name"] = tried(fcntl.flock, second, fcntl.LOCK_SH)
        os.close(second)
        os.mkdir("d")
        fd = os.open("d", os.O_RDONLY)
        seen["directory"] = tried(fcntl.flock, fd, fcntl.LOCK_EX)
        os.close(fd)
        return seen

    compare(pair, flocks)


@pytest.mark.parametrize("ours", [fcntl.F_SETLK, OFD_SETLK])
@pytest.mark.parametrize("theirs", [fcntl.F_SETLK, OFD_SETLK])
def test_locks_of_ranges(pair, ours, theirs):
    def ranges():
        make("file", "x")
        seen = {}
        fd = os.open("x", os.O_RDWR)
        get = {fcntl.F_SETLK: fcntl.F_GETLK, OFD_SETLK: OFD_GETLK}[theirs]
        for mine in (fcntl.F_RDLCK, fcntl.F_WRLCK):
            lock(fd, mine, 10, 10, ours)
            for begin, length in ((0, 10), (0, 11), (15, 1), (20, 5), (0, 0), (19, 0), (20, 0)):
                for other in (fcntl.F_RDLCK, fcntl.F_WRLCK):
                    key = f"{mine} {other} {begin} {length}"
                    seen[key] = elsewhere(
                        lambda them, b=begin, n=length, o=other: lock(them, o, b, n, theirs)
                    )
                    seen[f"get {key}"] = elsewhere(
                        lambda them, b=begin, n=length, o=other: lock(them, o, b, n, get)
                    )
        lock(fd, fcntl.F_UNLCK, 12, 2, ours)
        seen["between"] = elsewhere(lambda them: lock(them, fcntl.F_WRLCK, 12, 2, theirs))
        seen["beside"] = elsewhere(lambda them: lock(them, fcntl.F_WRLCK, 11, 2, theirs))
        seen["reader writes"] = elsewhere(
            lambda them: lock(them, fcntl.F_WRLCK, 50, 2, theirs), os.O_RDONLY
        )
        seen["writer reads"] = elsewhere(
            lambda them: lock(them, fcntl.F_RDLCK, 50, 2, theirs), os.O_WRONLY
        )
        seen["negative"] = tried(lock, fd, fcntl.F_WRLCK, -1, 1, ours)
        # Locks of a process go with any descriptor of the file that it closes.
        os.close(os.open("x", os.O_RDONLY))
        seen["after a close"] = elsewhere(lambda them: lock(them, fcntl.F_WRLCK, 10, 1, theirs))
        os.close(fd)
        seen["after the last"] = elsewhere(lambda them: lock(them, fcntl.F_WRLCK, 10, 1, theirs))
        return seen

    ranges.__name__ = f"ranges_{ours}_{theirs}"
    compare(pair, ranges)


@pytest.mark.parametrize("way", ["flock", "range", "ofd"])
def test_waiting_for_a_lock(pair, way):
    def take(fd):
        if way == "flock":
            fcntl.flock(fd, fcntl.LOCK_EX)
        else:
            lock(fd, fcntl.F_WRLCK, 0, 1, fcntl.F_SETLKW if way == "range" else OFD_SETLKW)

    def waiting():
        make("file", "x")
        fd = os.open("x", os.O_RDWR)
        take(fd)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(fd)  # Or it would have a part in the lock.
            them = os.open("x", os.O_RDWR)
            os.write(writer, b"waits")
            take(them)
            os.write(writer, b"has it")
            os._exit(0)
        seen = [os.read(reader, 99)]
        time.sleep(0.05)
        os.set_blocking(reader, False)
        seen.append(tried(os.read, reader, 99))
        os.close(fd)
        os.waitpid(pid, 0)
        seen.append(os.read(reader, 99))
        os.close(reader)
        os.close(writer)
        return seen

    waiting.__name__ = f"waiting_{way}"
    compare(pair, waiting)


def test_a_lock_of_who_was_killed(pair):
    def killed():
        make("file", "x")
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            fd = os.open("x", os.O_RDWR)
            fcntl.flock(fd, fcntl.LOCK_EX)
            lock(fd, fcntl.F_WRLCK)
            os.write(writer, b"has it")
            time.sleep(60)
            os._exit(0)
        seen = [os.read(reader, 99)]
        fd = os.open("x", os.O_RDWR)
        seen.append(tried(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
        seen.append(tried(lock, fd, fcntl.F_WRLCK))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        seen.append(tried(fcntl.flock, fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
        seen.append(tried(lock, fd, fcntl.F_WRLCK))
        os.close(fd)
        os.close(reader)
        os.close(writer)
        return seen

    compare(pair, killed)


def test_leases(pair):
    def leases():
        make("file", "x")
        fd = os.open("x", os.O_RDONLY)
        seen = [tried(fcntl.fcntl, fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)]
        seen.append(tried(fcntl.fcntl, fd, fcntl.F_GETLEASE))
        os.close(fd)
        return seen

    compare(pair, leases)
