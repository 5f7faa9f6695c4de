"""Reads, writes, copies and mappings, beside ext4."""

import ctypes
import itertools
import mmap
import os
import signal

from mount_tools import needs_fuse
from posix_pair import (
    LIBC,
    USER,
    checked,
    compare,
    fallocate,
    flags_of,
    in_child,
    make,
    opened,
    tried,
    user,
    with_and_without_gathering,
)

pytest_plugins = ["mounted_pair"]
pytestmark = [needs_fuse, with_and_without_gathering]

KIB, TIB = 1 << 10, 1 << 40


def test_reading_and_writing_beyond_the_end(pair):
    def beyond():
        seen = {}
        fd = os.open("x", os.O_CREAT | os.O_RDWR)
        seen["empty"] = (os.read(fd, 10), os.pread(fd, 10, 100))
        seen["write"] = os.pwrite(fd, b"end", 5 * TIB)
        seen["size"] = os.fstat(fd).st_size
        seen["read"] = os.pread(fd, 10, 5 * TIB - 3)
        seen["hole"] = os.pread(fd, 10, 3 * TIB)
        seen["after"] = os.pread(fd, 10, 6 * TIB)
        seen["negative"] = (tried(os.pread, fd, 1, -1), tried(os.pwrite, fd, b"x", -1))
        seen["nothing"] = (os.pwrite(fd, b"", 9 * TIB), os.fstat(fd).st_size)
        seen["blocks"] = os.fstat(fd).st_blocks < 1000
        seen["vectors"] = os.pwritev(fd, [b"ab", b"", b"cd"], 10)
        parts = [bytearray(3), bytearray(0), bytearray(5)]
        seen["read vectors"] = (os.preadv(fd, parts, 9), [bytes(part) for part in parts])
        seen["too many"] = tried(os.writev, fd, [b"x"] * 1025)
        seen["many"] = tried(os.pwritev, fd, [b"x"] * 1024, 0)
        os.close(fd)
        return seen

    compare(pair, beyond)


def test_wrong_ways(pair):
    def ways():
        make("file", "x")
        seen = {}
        for way in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_APPEND):
            fd = os.open("x", way)
            other = os.open("x", os.O_RDWR)
            seen[way] = {
                "read": tried(os.read, fd, 3),
                "write": tried(os.write, fd, b"xyz"),
                "pwrite": tried(os.pwrite, fd, b"p", 1),
                "allocate": tried(fallocate, fd, 0, 0, 5),
                "copy in": tried(os.copy_file_range, other, fd, 3, 0, 4),
                "copy out": tried(os.copy_file_range, fd, other, 3, 0, 4),
                "map shared": tried(lambda fd=fd: mmap.mmap(fd, 7).close()),
                "map private": tried(
                    lambda fd=fd: mmap.mmap(fd, 7, mmap.MAP_PRIVATE, mmap.PROT_READ).close()
                ),
                "flags": flags_of(fd) & (os.O_ACCMODE | os.O_APPEND),
                "content": os.pread(other, 100, 0),
            }
            os.close(fd)
            os.close(other)
        os.mkdir("d")
        fd = os.open("d", os.O_RDONLY)
        seen["directory"] = {
            "read": tried(os.read, fd, 3),
            "pread": tried(os.pread, fd, 3, 0),
            "write": tried(os.write, fd, b"x"),
            "cut": tried(os.ftruncate, fd, 0),
            "map": tried(lambda: mmap.mmap(fd, 7, mmap.MAP_PRIVATE, mmap.PROT_READ).close()),
            "sync": tried(os.fsync, fd),
            "data sync": tried(os.fdatasync, fd),
        }
        os.close(fd)
        return seen

    compare(pair, ways)


def test_copying_ranges(pair):
    def copies():
        seen = {}
        content = os.fsencode("".join(f"{number:08}" for number in range(20_000)))
        ranges = ((0, 0, 10), (0, 5, 10), (5, 0, 10), (0, 100, 50), (100, 0, 50), (0, 160_000, 10))
        ranges += ((159_990, 0, 100), (160_000, 0, 10), (170_000, 0, 10), (0, 200_000, 10))
        ranges += ((0, 4096, 4096), (4096, 0, 8192), (0, 0, 0), (4096, 70_000, 60_000))
        for same, (begin, to, length) in itertools.product((True, False), ranges):
            with open("a", "w+b", buffering=0) as a, open("b", "w+b", buffering=0) as b:
                a.write(content)
                b.write(content[::-1])
                target = a if same else b
                got = tried(os.copy_file_range, a.fileno(), target.fileno(), length, begin, to)
                read = os.pread(target.fileno(), 1 << 20, 0)
                seen[f"{same} {begin} {to} {length}"] = (got, len(read), hash(read))
        os.mkdir("d")
        make("fifo", "p")
        with open("a", "r+b", buffering=0) as a:
            for name in ("d", "p"):
                fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
                seen[f"to {name}"] = tried(os.copy_file_range, a.fileno(), fd, 3)
                seen[f"from {name}"] = tried(os.copy_file_range, fd, a.fileno(), 3)
                os.close(fd)
            with open("b", "r+b", buffering=0) as b:
                out, into = a.fileno(), b.fileno()
                seen["flags"] = tried(
                    lambda: checked(LIBC.copy_file_range(out, None, into, None, 3, 1))
                )
                seen["moves"] = (
                    os.copy_file_range(out, into, 7),
                    os.lseek(out, 0, 1),
                    os.lseek(into, 0, 1),
                )
                seen["sendfile"] = (os.sendfile(into, out, 100, 10), os.lseek(into, 0, 1))
        return seen

    compare(pair, copies)


def append(letter, times):
    fd = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(times):
        os.write(fd, letter * 99 + b"\n")
    os.close(fd)


def test_two_processes_append(pair):
    def both():
        pid = os.fork()
        if pid == 0:
            append(b"a", 300)
            os._exit(0)
        append(b"b", 300)
        os.waitpid(pid, 0)
        with open("log", "rb") as file:
            lines = file.read().split(b"\n")
        whole = all(len(set(line)) == 1 and len(line) == 99 for line in lines[:-1])
        return len(lines), whole, sum(line[:1] == b"a" for line in lines)

    compare(pair, both)


def test_appending_where_others_cut(pair):
    def cut():
        a = os.open("x", os.O_CREAT | os.O_RDWR | os.O_APPEND)
        b = os.open("x", os.O_RDWR)
        os.write(a, b"12345")
        os.ftruncate(b, 2)
        os.write(a, b"678")
        seen = [os.pread(b, 10, 0), os.lseek(a, 0, os.SEEK_CUR)]
        in_child(lambda: os.truncate("x", 0))
        os.write(a, b"9")
        seen += [os.pread(b, 10, 0), os.lseek(a, 0, os.SEEK_CUR)]
        os.close(a)
        os.close(b)
        return seen

    compare(pair, cut)


def test_mappings_and_sizes(pair):
    def mapped():
        seen = {}
        with open("x", "w+b", buffering=0) as file:
            fd = file.fileno()
            file.write(b"a" * 4096)
            with mmap.mmap(fd, 4096) as memory:
                os.ftruncate(fd, 100)
                memory[200:205] = b"beyond"[:5]
                seen["in memory"] = memory[100:210]
                seen["size"] = os.fstat(fd).st_size
                os.ftruncate(fd, 300)
                seen["longer"] = os.pread(fd, 400, 90)
                memory[290:295] = b"inner"
                seen["through"] = os.pread(fd, 10, 288)
                os.ftruncate(fd, 50)
                os.ftruncate(fd, 300)
                seen["cut and longer"] = os.pread(fd, 400, 0)
                seen["mapped"] = memory[40:60]
                os.pwrite(fd, b"new", 45)
                seen["seen"] = memory[44:50]
            os.ftruncate(fd, 4096)
            with mmap.mmap(fd, 4096) as memory:
                os.ftruncate(fd, 300)
                memory[400:404] = b"lost"
                os.pwrite(fd, b"far", 10_000)
                seen["gap"] = os.pread(fd, 200, 300)
        return seen

    compare(pair, mapped)


def test_mappings_see_what_is_done_to_the_file(pair):
    def coherent():
        seen = {}
        size = 64 * KIB
        with open("x", "w+b", buffering=0) as file, open("y", "w+b", buffering=0) as other:
            fd = file.fileno()
            file.write(b"a" * size)
            with mmap.mmap(fd, size) as memory:
                memory[:10] = b"0123456789"
                os.copy_file_range(fd, other.fileno(), 10, 0, 0)
                seen["copied out"] = os.pread(other.fileno(), 10, 0)
                os.pwrite(other.fileno(), b"b" * 8192, 0)
                os.copy_file_range(other.fileno(), fd, 8192, 0, 8192)
                seen["copied in"] = (memory[8190:8194], memory[16382:16386])
                memory[20_000:20_004] = b"lost"
                fallocate(fd, 3, 16_384, 8192)
                seen["punched"] = (memory[20_000:20_004], os.pread(fd, 4, 20_000))
                memory[40_000:40_004] = b"lost"
                fallocate(fd, 16, 36_864, 8192)
                seen["zeroed"] = (memory[40_000:40_004], os.pread(fd, 4, 40_000))
                memory[20_000:20_003] = b"new"
                seen["again"] = os.pread(fd, 5, 19_999)
                with open("x", "wb"):
                    pass
                os.ftruncate(fd, size)
                seen["cut"] = memory[20_000:20_003]
                memory[0:4] = b"kept"
            seen["end"] = os.pread(fd, 6, 0)
        with open("x", "rb") as file:
            seen["whole"] = hash(file.read())
        return seen

    compare(pair, coherent)


def test_mapping_beyond_the_end(pair):
    def touch(at):
        def run():
            with open("x", "r+b") as file:
                memory = mmap.mmap(file.fileno(), 8192)
                os.ftruncate(file.fileno(), 100)
                return memory[at]

        return run

    def faults():
        with open("x", "wb") as file:
            file.write(b"a" * 8192)
        return {
            "inside": in_child(touch(50)),
            "page": in_child(touch(4000)) == 0,
            "beyond": in_child(touch(5000)) == f"ended with {-signal.SIGBUS}",
        }

    compare(pair, faults)


def test_mappings_of_two_processes(pair):
    def shared():
        with open("x", "wb") as file:
            file.write(bytes(8192))
        with open("x", "r+b") as file, mmap.mmap(file.fileno(), 8192) as memory:
            memory[0:3] = b"one"

            def other():
                with open("x", "r+b") as again, mmap.mmap(again.fileno(), 8192) as mine:
                    mine[10:13] = b"two"
                    return mine[0:3], os.pread(again.fileno(), 3, 0)

            got = in_child(other)
            with open("x", "rb") as again:
                read = again.read(20)
            private = mmap.mmap(file.fileno(), 8192, mmap.MAP_PRIVATE)
            private[0:3] = b"own"
            return got, memory[10:13], read, memory[0:3], private[0:3]

    compare(pair, shared)


def test_direct_io(pair):
    def direct():
        seen = {}
        buffer = mmap.mmap(-1, 16 * KIB)
        buffer.write(bytes(range(256)) * 64)
        fd = os.open("x", os.O_CREAT | os.O_RDWR | os.O_DIRECT)
        seen["write"] = os.pwrite(fd, buffer, 0)
        seen["behind"] = os.pwrite(fd, memoryview(buffer)[:4096], 64 * KIB)
        into = mmap.mmap(-1, 16 * KIB)
        seen["read"] = (os.preadv(fd, [into], 0), into[:] == buffer[:])
        os.ftruncate(fd, 5000)
        seen["short"] = os.preadv(fd, [into], 4096)
        seen["end"] = os.preadv(fd, [into], 8192)
        plain = os.open("x", os.O_RDWR)
        os.pwrite(plain, b"plain", 0)
        seen["mixed"] = (os.preadv(fd, [into], 0), into[:5])
        os.pwrite(fd, buffer, 0)
        seen["other way"] = os.pread(plain, 5, 0)
        os.close(fd)
        os.close(plain)
        return seen

    compare(pair, direct)


def test_other_calls_of_files(pair):
    def calls():
        make("file", "x")
        fd = os.open("x", os.O_RDWR)
        import fcntl

        number = ctypes.c_int(0)
        seen = {
            "advise": [tried(os.posix_fadvise, fd, 0, 0, advice) for advice in range(7)],
            "readahead": tried(lambda: checked(LIBC.readahead(fd, ctypes.c_long(0), 100))),
            "sync range": tried(
                lambda: checked(LIBC.sync_file_range(fd, ctypes.c_long(0), ctypes.c_long(0), 7))
            ),
            "syncfs": tried(lambda: checked(LIBC.syncfs(fd))),
            "datasync": tried(os.fdatasync, fd),
            "readable": tried(lambda: fcntl.ioctl(fd, 0x541B, number) and None) == "ok",
            "block size": tried(lambda: fcntl.ioctl(fd, 2, bytes(4))),
            "no such": tried(lambda: fcntl.ioctl(fd, 0x5401, bytes(64))),
            "splice": tried(splice, fd),
            "get flags": tried(lambda: fcntl.ioctl(fd, 0x80086601, bytes(8)) and None),
            "clone": tried(lambda: fcntl.ioctl(fd, 0x40049409, fd)),
        }
        os.close(fd)
        return seen

    def splice(fd):
        reader, writer = os.pipe()
        try:
            moved = os.splice(fd, writer, 7, offset_src=0) if hasattr(os, "splice") else 7
            back = os.splice(reader, fd, 7, offset_dst=3) if hasattr(os, "splice") else 7
            return moved, back, os.pread(fd, 100, 0) if hasattr(os, "splice") else None
        finally:
            os.close(reader)
            os.close(writer)

    compare(pair, calls)


def test_a_write_into_what_was_shrunk_by_another(pair):
    def many():
        seen = []
        with open("x", "w+b", buffering=0) as file, open("x", "r+b", buffering=0) as other:
            for number in range(30):
                os.pwrite(file.fileno(), bytes([65 + number]) * 5000, number * 1000)
                os.ftruncate(other.fileno(), number * 700)
                os.pwrite(other.fileno(), b"!", number * 1500)
                seen.append((os.fstat(file.fileno()).st_size, os.pread(file.fileno(), 1 << 20, 0)))
        return [(size, hash(content)) for size, content in seen]

    compare(pair, many)


def test_what_somebody_else_may_not_write(pair):
    def rights():
        make("file", "x")
        os.chmod("x", 0o666)
        seen = {}
        with user(USER):
            fd = os.open("x", os.O_RDWR)
        os.chmod("x", 0)
        with user(USER):
            # What is open stays so.
            seen["write"] = tried(os.write, fd, b"abc")
            seen["cut"] = tried(os.ftruncate, fd, 2)
            seen["read"] = tried(os.pread, fd, 9, 0)
            seen["again"] = opened("x", os.O_RDONLY)
            seen["by proc"] = opened(f"/proc/self/fd/{fd}", os.O_RDONLY)
        os.close(fd)
        return seen

    compare(pair, rights)
