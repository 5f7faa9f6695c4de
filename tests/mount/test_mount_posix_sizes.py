"""Holes and sizes: lseek, fallocate and truncate, beside ext4."""

import itertools
import os
import resource
import signal

import pytest
from mount_tools import needs_fuse
from posix_pair import (
    KINDS,
    compare,
    facts,
    fallocate,
    in_child,
    make,
    tried,
    with_and_without_gathering,
)

pytest_plugins = ["mounted_pair"]
pytestmark = [needs_fuse, with_and_without_gathering]

KIB, MIB, TIB = 1 << 10, 1 << 20, 1 << 40
KEEP, PUNCH, COLLAPSE, ZERO, INSERT = 1, 2, 8, 16, 32


def layout(fd, end):
    """[(begin, end)] of all data, as SEEK_DATA and SEEK_HOLE tell."""
    found, at = [], 0
    while at < end:
        begin = tried(os.lseek, fd, at, os.SEEK_DATA)
        if isinstance(begin, str):
            return found, begin
        at = os.lseek(fd, begin, os.SEEK_HOLE)
        found.append((begin, at))
    return found, "end"


def test_where_data_lies(pair):
    def data():
        seen = {}
        with open("x", "w+b", buffering=0) as file:
            fd = file.fileno()
            size = 8 * MIB
            os.ftruncate(fd, size)
            seen["empty"] = layout(fd, size)
            os.pwrite(fd, b"x" * MIB, 2 * MIB)
            seen["one"] = layout(fd, size)
            os.pwrite(fd, b"x" * 4096, 5 * MIB)
            seen["two"] = layout(fd, size)
            for at in (
                0,
                MIB,
                2 * MIB,
                2 * MIB + 5,
                3 * MIB - 1,
                3 * MIB,
                size - 1,
                size,
                size + 1,
                -1,
            ):
                for way in (os.SEEK_DATA, os.SEEK_HOLE):
                    seen[f"at {at} {way}"] = tried(os.lseek, fd, at, way)
            fallocate(fd, PUNCH | KEEP, 2 * MIB + 64 * KIB, 64 * KIB)
            seen["punched"] = layout(fd, size)
            fallocate(fd, PUNCH | KEEP, 0, size)
            seen["all punched"] = layout(fd, size)
            os.pwrite(fd, b"x" * 4096, size - 4096)
            seen["end"] = layout(fd, size)
            os.ftruncate(fd, MIB)
            seen["cut"] = layout(fd, MIB)
            os.ftruncate(fd, 0)
            seen["nothing"] = (
                tried(os.lseek, fd, 0, os.SEEK_DATA),
                tried(os.lseek, fd, 0, os.SEEK_HOLE),
            )
        return seen

    compare(pair, data)


def test_seeking(pair):
    def seeks():
        make("file", "x")
        seen = {}
        fd = os.open("x", os.O_RDWR)
        for offset, way in itertools.product((-8, -7, -1, 0, 3, 7, 8, 1 << 40), range(6)):
            os.lseek(fd, 0, os.SEEK_SET)
            got = tried(os.lseek, fd, offset, way)
            seen[f"{offset} {way}"] = (got, os.lseek(fd, 0, os.SEEK_CUR))
        os.close(fd)
        return seen

    compare(pair, seeks)


MODES = (0, KEEP, PUNCH, PUNCH | KEEP, ZERO, ZERO | KEEP, ZERO | PUNCH, PUNCH | ZERO | KEEP)
MODES += (COLLAPSE, COLLAPSE | KEEP, COLLAPSE | PUNCH, INSERT, INSERT | KEEP, 128, 1 << 20)


def test_allocating(pair):
    def allocations():
        seen = {}
        content = bytes(range(256)) * 512  # 128 KiB
        ranges = ((0, 4096), (1, 10), (0, 0), (-1, 5), (5, -1), (4096, 1 << 17), (1 << 17, 4096))
        ranges += ((1 << 18, 100), (100, 70_000), (65_536, 65_536), ((1 << 63) - 1, 5))
        for mode, (offset, length) in itertools.product(MODES, ranges):
            with open("x", "w+b", buffering=0) as file:
                file.write(content)
                got = tried(fallocate, file.fileno(), mode, offset, length)
                size = os.fstat(file.fileno()).st_size
                read = os.pread(file.fileno(), 1 << 20, 0)
                rest = read.rstrip(b"\0")
                seen[f"{mode} {offset} {length}"] = (got, size, len(read), hash(rest))
            os.unlink("x")
        return seen

    compare(pair, allocations)


def test_allocating_what_is_no_file(pair):
    def kinds():
        seen = {}
        for kind in KINDS:
            make(kind, kind)
            for way in (os.O_RDONLY, os.O_RDWR):
                fd = tried(os.open, kind, way | os.O_NONBLOCK)
                if isinstance(fd, int):
                    for mode in (0, PUNCH | KEEP):
                        seen[f"{kind} {way} {mode}"] = tried(fallocate, fd, mode, 0, 10)
                    os.close(fd)
        return seen

    compare(pair, kinds)


def test_posix_fallocate(pair):
    def posix_allocations():
        seen = {}
        for offset, length in ((0, 1), (0, 8192), (3, 5), (100, 10_000), (-1, 1), (0, 0), (0, -1)):
            make("file", "x")
            fd = os.open("x", os.O_RDWR)
            got = tried(os.posix_fallocate, fd, offset, length)
            seen[f"{offset} {length}"] = (got, facts("x"), os.pread(fd, 20_000, 0))
            os.close(fd)
            os.unlink("x")
        return seen

    compare(pair, posix_allocations)


def test_truncating(pair):
    def sizes():
        seen = {}
        for size in (0, 1, 6, 7, 8, 4095, 4096, 4097, MIB, 5 * TIB, -1):
            make("file", "x")
            fd = os.open("x", os.O_RDWR)
            seen[f"f {size}"] = (tried(os.ftruncate, fd, size), os.fstat(fd).st_size)
            seen[f"read {size}"] = os.pread(fd, 5000, 0)
            # What lay behind is gone.
            os.ftruncate(fd, 20)
            seen[f"again {size}"] = os.pread(fd, 100, 0)
            os.close(fd)
            seen[f"path {size}"] = (tried(os.truncate, "x", size), facts("x"))
            os.unlink("x")
        make("file", "x")
        fd = os.open("x", os.O_RDONLY)
        seen["for reading"] = tried(os.ftruncate, fd, 1)
        os.close(fd)
        return seen

    compare(pair, sizes)


@pytest.mark.parametrize("kind", ["char", "fifo", "socket"])
def test_truncating_what_is_no_file(pair, kind):
    def cut():
        make(kind, "x")
        return tried(os.truncate, "x", 0), facts("x")

    cut.__name__ = f"cut_{kind}"
    compare(pair, cut)


def test_limits_of_size(pair):
    def limited():
        def run():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
            fd = os.open("x", os.O_CREAT | os.O_RDWR)
            return {
                "fits": tried(os.pwrite, fd, bytes(10_000), 0),
                "part": tried(os.pwrite, fd, bytes(10_000), 5000),
                "beyond": tried(os.pwrite, fd, b"x", 10_000),
                "cut": tried(os.ftruncate, fd, 10_001),
                "path": tried(os.truncate, "x", 10_001),
                "allocate": tried(fallocate, fd, 0, 0, 10_001),
                "size": os.fstat(fd).st_size,
            }

        return in_child(run)

    compare(pair, limited)
