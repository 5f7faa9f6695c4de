"""What files hold, through a real mount."""

import ctypes
import errno
import mmap
import os
import random
import threading

import pytest
from mount_tools import Volume, needs_fuse

pytest_plugins = ["mounted_volume"]
pytestmark = needs_fuse

KIB = 1 << 10
MIB = 1 << 20
TIB = 1 << 40
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16


def fallocate(file, mode, offset, length):
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_int(mode), ctypes.c_long(offset), ctypes.c_long(length))
    if libc.fallocate(file.fileno(), *arguments) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def data_of(file):
    """[(begin, end)] of all data, as SEEK_DATA and SEEK_HOLE tell."""
    found, at = [], 0
    while True:
        try:
            begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
        except OSError as error:
            assert error.errno == errno.ENXIO
            return found
        at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
        found.append((begin, at))


def test_holes(mounted):
    with open(mounted / "sparse", "w+b") as file:
        os.pwrite(file.fileno(), b"x" * 4096, 1 * MIB)
        os.pwrite(file.fileno(), b"y" * 4096, 100 * MIB)
        os.ftruncate(file.fileno(), 200 * MIB)
        # At once, before anything was sent by a close.
        assert data_of(file) == [(MIB, MIB + 4096), (100 * MIB, 100 * MIB + 4096)]
        assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == 0
        with pytest.raises(OSError):
            os.lseek(file.fileno(), 200 * MIB, os.SEEK_DATA)
        assert os.pread(file.fileno(), 8192, MIB - 4096) == bytes(4096) + b"x" * 4096
    assert os.stat(mounted / "sparse").st_blocks * 512 == 8192


def test_beyond_a_terabyte(volume, mounted):
    with open(mounted / "large", "w+b") as file:
        os.pwrite(file.fileno(), b"end", 5 * TIB)
        assert os.pread(file.fileno(), 10, 5 * TIB - 3) == b"\0\0\0end"
        assert data_of(file)[-1][1] == 5 * TIB + 3
    volume.remount()
    assert os.stat(mounted / "large").st_size == 5 * TIB + 3
    with open(mounted / "large", "rb") as file:
        assert os.pread(file.fileno(), 10, 5 * TIB - 3) == b"\0\0\0end"


def test_fallocate(volume, mounted):
    with open(mounted / "file", "w+b") as file:
        fallocate(file, 0, 0, 3 * MIB)
        assert os.fstat(file.fileno()).st_size == 3 * MIB
        assert os.pread(file.fileno(), 4, MIB) == bytes(4)
        fallocate(file, KEEP_SIZE, 3 * MIB, MIB)
        assert os.fstat(file.fileno()).st_size == 3 * MIB
        os.pwrite(file.fileno(), b"x" * 3 * MIB, 0)
        fallocate(file, PUNCH_HOLE | KEEP_SIZE, MIB, MIB)
        assert os.pread(file.fileno(), 3 * MIB, 0) == b"x" * MIB + bytes(MIB) + b"x" * MIB
        assert (MIB, 2 * MIB) not in data_of(file) and len(data_of(file)) == 2
        fallocate(file, ZERO_RANGE, 10, 20)
        assert os.pread(file.fileno(), 40, 0) == b"x" * 10 + bytes(20) + b"x" * 10
        fallocate(file, ZERO_RANGE, 3 * MIB - 5, 10)
        assert os.fstat(file.fileno()).st_size == 3 * MIB + 5
        with pytest.raises(OSError) as refused:
            fallocate(file, 8, 0, 4096)  # COLLAPSE_RANGE
        assert refused.value.errno == errno.EOPNOTSUPP
    volume.remount()
    content = (mounted / "file").read_bytes()
    expected = b"x" * 10 + bytes(20) + b"x" * (MIB - 30) + bytes(MIB) + b"x" * (MIB - 5) + bytes(10)
    assert content == expected


def test_append_and_truncate(mounted):
    for text in ("a", "b"):
        with open(mounted / "file", "a", encoding="utf-8") as file:
            file.write(text * 5000)
    assert (mounted / "file").read_text() == "a" * 5000 + "b" * 5000
    os.truncate(mounted / "file", 3)
    os.truncate(mounted / "file", 6)
    assert (mounted / "file").read_bytes() == b"aaa\0\0\0"
    with open(mounted / "file", "w", encoding="utf-8"):
        pass
    assert (mounted / "file").read_bytes() == b""


def test_many_append_at_once(mounted):
    def append(letter):
        fd = os.open(mounted / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for _ in range(200):
            os.write(fd, letter * 99 + b"\n")
        os.close(fd)

    threads = [threading.Thread(target=append, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (mounted / "log").read_bytes().splitlines()
    assert len(lines) == 600 and all(len(line) == 99 and len(set(line)) == 1 for line in lines)


def test_mmap(volume, mounted):
    (mounted / "file").write_bytes(bytes(3 * MIB + 100))
    with open(mounted / "file", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[MIB : MIB + 5] = b"hello"
        memory[-1:] = b"!"
        # Seen by who reads, before anything is synced.
        assert os.pread(file.fileno(), 5, MIB) == b"hello"
        os.pwrite(file.fileno(), b"there", 2 * MIB)
        assert memory[2 * MIB : 2 * MIB + 5] == b"there"
        memory.flush()
    volume.remount()
    with open(mounted / "file", "rb") as file:
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
            assert memory[MIB : MIB + 5] == b"hello" and memory[-1:] == b"!"
            assert memory[2 * MIB : 2 * MIB + 5] == b"there"


def test_direct_io(mounted):
    buffer = mmap.mmap(-1, 64 * KIB)
    buffer.write(os.urandom(64 * KIB))
    fd = os.open(mounted / "file", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    try:
        assert os.pwrite(fd, buffer, 0) == 64 * KIB
        assert (mounted / "file").read_bytes() == buffer[:]
        with open(mounted / "file", "r+b") as file:
            file.write(b"buffered")
        into = mmap.mmap(-1, 64 * KIB)
        assert os.preadv(fd, [into], 0) == 64 * KIB
        assert into[:8] == b"buffered" and into[8:] == buffer[8:]
    finally:
        os.close(fd)


def test_copy_file_range(volume, mounted):
    content = os.urandom(9 * MIB + 12345)
    (mounted / "from").write_bytes(content)
    with open(mounted / "from", "rb") as source, open(mounted / "to", "wb") as target:
        copied = 0
        while copied < len(content):
            done = os.copy_file_range(source.fileno(), target.fileno(), len(content) - copied)
            assert done > 0
            copied += done
        assert os.copy_file_range(source.fileno(), target.fileno(), 1) == 0
    assert (mounted / "to").read_bytes() == content
    with open(mounted / "from", "r+b") as file:
        file.write(b"other")
        os.copy_file_range(file.fileno(), file.fileno(), 777, 1_000_001, 5_000_003)
    expected = bytearray(content)
    expected[:5] = b"other"
    expected[5_000_003 : 5_000_003 + 777] = expected[1_000_001 : 1_000_001 + 777]
    volume.remount()
    assert (mounted / "from").read_bytes() == expected
    assert (mounted / "to").read_bytes() == content


@pytest.mark.parametrize("options", [(), ("--gather-writes",)])
def test_random_operations_like_a_plain_file(volume, options):
    """What fsx does: each operation on the mount and on bytes in memory, compared as it goes."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    maker = random.Random(seed)
    volume.mount(*options)
    path = volume.folder / "file"
    limit = 2 * MIB
    model = bytearray()
    file = open(path, "w+b", buffering=0)  # noqa: SIM115

    def write(offset, length):
        data = maker.randbytes(length)
        os.pwrite(file.fileno(), data, offset)
        if offset + length > len(model):
            model.extend(bytes(offset + length - len(model)))
        model[offset : offset + length] = data

    def map_write(offset, length):
        length = min(length, len(model) - offset)
        if length <= 0:
            return
        data = maker.randbytes(length)
        with mmap.mmap(file.fileno(), 0) as memory:
            memory[offset : offset + length] = data
        model[offset : offset + length] = data

    def truncate(offset, _):
        os.ftruncate(file.fileno(), offset)
        model[offset:] = bytes(max(0, offset - len(model)))

    def punch(offset, length):
        fallocate(file, PUNCH_HOLE | KEEP_SIZE, offset, length)
        end = min(offset + length, len(model))
        model[offset:end] = bytes(max(0, end - offset))

    def zero(offset, length):
        fallocate(file, ZERO_RANGE, offset, length)
        model.extend(bytes(max(0, offset + length - len(model))))
        model[offset : offset + length] = bytes(length)

    def allocate(offset, length):
        fallocate(file, 0, offset, length)
        model.extend(bytes(max(0, offset + length - len(model))))

    def copy(offset, length):
        to = maker.randrange(limit)
        length = min(length, max(0, len(model) - offset), abs(to - offset))
        if length == 0:
            return
        done = os.copy_file_range(file.fileno(), file.fileno(), length, offset, to)
        assert done == length
        model.extend(bytes(max(0, to + length - len(model))))
        model[to : to + length] = model[offset : offset + length]

    def read(offset, length):
        assert os.pread(file.fileno(), length, offset) == model[offset : offset + length]

    def sync(*_):
        os.fsync(file.fileno())

    def reopen(*_):
        nonlocal file
        file.close()
        volume.remount(*options)
        file = open(path, "r+b", buffering=0)  # noqa: SIM115

    kinds = [write] * 6 + [read] * 6 + [map_write] * 2
    kinds += [truncate, punch, punch, zero, allocate, copy, copy, sync]
    try:
        for number in range(600):
            kind = reopen if number % 200 == 199 else maker.choice(kinds)
            offset, length = maker.randrange(limit), maker.randrange(1, 200 * KIB)
            if maker.random() < 0.3:
                offset -= offset % 4096
            kind(offset, length)
            assert os.fstat(file.fileno()).st_size == len(model), (number, kind)
        file.close()
        assert path.read_bytes() == model
        volume.remount(*options)
        assert path.read_bytes() == model
    finally:
        file.close()


def test_many_threads(mounted):
    """Each with its own files, all with one."""
    with open(mounted / "shared", "wb") as file:
        file.truncate(8 * MIB)
    problems = []

    def work(index):
        maker = random.Random(index)
        try:
            with open(mounted / "shared", "r+b", buffering=0) as shared:
                for number in range(30):
                    data = maker.randbytes(maker.randrange(1, 300_000))
                    path = mounted / f"file-{index}-{number % 5}"
                    path.write_bytes(data)
                    assert path.read_bytes() == data
                    os.pwrite(shared.fileno(), bytes([index]) * MIB, index * MIB)
                    assert os.pread(shared.fileno(), MIB, index * MIB) == bytes([index]) * MIB
                    if number % 7 == 0:
                        path.rename(mounted / f"moved-{index}")
                        os.unlink(mounted / f"moved-{index}")
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    content = (mounted / "shared").read_bytes()
    assert content == b"".join(bytes([index]) * MIB for index in range(8))


def test_a_quota_is_kept(home, tmp_path):
    volume = Volume(home, tmp_path / "mnt").create("--quota", "64MiB")
    try:
        volume.mount()
        with pytest.raises(OSError) as refused:
            with open(volume.folder / "file", "wb", buffering=0) as file:
                for _ in range(80):
                    file.write(bytes(MIB))
                os.fsync(file.fileno())
        assert refused.value.errno == errno.ENOSPC
        os.unlink(volume.folder / "file")
        (volume.folder / "file").write_bytes(b"fits")
    finally:
        volume.close()
