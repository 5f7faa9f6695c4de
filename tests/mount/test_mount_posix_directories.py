"""Listings that go on while entries come and go, and deep trees, beside ext4."""

import ctypes
import os
import struct
import subprocess

from mount_tools import needs_fuse
from posix_pair import (
    KINDS,
    LIBC,
    all_in_semantics,
    checked,
    compare,
    facts,
    make,
    opened,
    tick,
    times,
    tried,
)

pytest_plugins = ["mounted_pair"]
pytestmark = needs_fuse

GETDENTS64 = 217


def getdents(fd, size):
    """[(name, type, offset after it)], as many as fit into so many bytes."""
    buffer = ctypes.create_string_buffer(size)
    got = checked(LIBC.syscall(GETDENTS64, fd, buffer, size))
    found, at = [], 0
    while at < got:
        _, after, length, kind = struct.unpack_from("QqHB", buffer, at)
        name = buffer.raw[at + 19 : at + length].split(b"\0")[0].decode()
        found.append((name, kind, after))
        at += length
    return found


def everything(fd, size=4096):
    found = []
    while part := getdents(fd, size):
        found += part
    return found


def fill(count, name="d"):
    os.mkdir(name)
    for number in range(count):
        os.mknod(f"{name}/{number:04}-{'x' * (number % 40)}")


def test_kinds_in_listings(pair):
    def kinds():
        os.mkdir("d")
        for kind in KINDS:
            make(kind, f"d/{kind}")
        fd = os.open("d", os.O_RDONLY)
        listed = sorted((name, kind) for name, kind, _ in everything(fd))
        numbers = {entry.name: entry.inode() == os.lstat(entry).st_ino for entry in os.scandir("d")}
        os.close(fd)
        return listed, numbers

    compare(pair, kinds)


def test_small_buffers(pair):
    def sizes():
        fill(100)
        seen = {}
        for size in (0, 1, 23, 24, 31, 32, 63, 64, 72, 100, 280, 1000, 32768):
            fd = os.open("d", os.O_RDONLY)
            got = tried(lambda fd=fd, size=size: sorted(entry[0] for entry in everything(fd, size)))
            seen[size] = got if isinstance(got, str) else (len(got), len(set(got)))
            os.close(fd)
        return seen

    compare(pair, sizes)


def test_going_back(pair):
    """telldir() and seekdir(): an offset stays good, whatever is removed meanwhile."""

    def seeks():
        fill(200)
        fd = os.open("d", os.O_RDONLY)
        listed = everything(fd, 500)
        seen = {"offsets differ": len({entry[2] for entry in listed}) == len(listed)}
        for index in (0, 1, 2, 50, 150, 200, 201):
            os.lseek(fd, listed[index][2], os.SEEK_SET)
            again = everything(fd, 300)
            seen[index] = [entry[0] for entry in again] == [e[0] for e in listed[index + 1 :]]
        os.lseek(fd, listed[20][2], os.SEEK_SET)
        gone = {entry[0] for entry in listed[10:40] if entry[0] not in (".", "..")}
        for name in gone:
            os.unlink(f"d/{name}")
        rest = [entry[0] for entry in everything(fd, 300)]
        # Those of the buffer the kernel had may be shown or not.
        seen["removed"] = [e[0] for e in listed[40:]] == [name for name in rest if name not in gone]
        os.lseek(fd, 0, os.SEEK_SET)
        seen["from the first"] = len(everything(fd)) == 202 - len(gone)
        seen["wrong"] = (tried(os.lseek, fd, -1, os.SEEK_SET), tried(os.lseek, fd, 0, 9))
        os.close(fd)
        return seen

    compare(pair, seeks)


def test_removing_while_listing(pair):
    def removing():
        seen = {}
        for size in (64, 300, 4096, 32768):
            fill(300)
            fd = os.open("d", os.O_RDONLY)
            names = []
            while part := getdents(fd, size):
                for name, _, _ in part:
                    if name not in (".", ".."):
                        names.append(name)
                        os.unlink(f"d/{name}")
            os.close(fd)
            seen[size] = (len(names), len(set(names)), tried(os.rmdir, "d"))
        return seen

    compare(pair, removing)


def test_entries_that_stay_are_seen_once(pair):
    def staying():
        fill(300)
        fd = os.open("d", os.O_RDONLY)
        names = []
        number = 0
        while part := getdents(fd, 400):
            names += [name for name, _, _ in part]
            os.mknod(f"d/new-{number}")
            gone = f"d/{number:04}-{'x' * (number % 40)}"
            if os.path.exists(gone):
                os.rename(gone, f"d/moved-{number}")
            number += 1
            if number > 400:
                break
        os.close(fd)
        old = [f"{n:04}-{'x' * (n % 40)}" for n in range(number, 300)]
        return all(names.count(name) == 1 for name in old), number < 400

    compare(pair, staying)


def test_a_listing_ends_though_all_is_renamed(pair):
    def renaming():
        fill(500)
        fd = os.open("d", os.O_RDONLY)
        names = []
        while (part := getdents(fd, 4096)) and len(names) < 2000:
            for name, _, _ in part:
                names.append(name)
                if name not in (".", ".."):
                    os.rename(f"d/{name}", "d/aside")
                    os.rename("d/aside", f"d/{name}")
        os.close(fd)
        return len(names) < 2000

    compare(pair, renaming)


def test_a_listing_begins_anew(pair):
    def anew():
        os.mkdir("d")
        fd = os.open("d", os.O_RDONLY)
        seen = [[entry[0] for entry in sorted(everything(fd))]]
        for number in range(3):
            os.mknod(f"d/{number}")
            os.lseek(fd, 0, os.SEEK_SET)
            seen.append(sorted(entry[0] for entry in everything(fd)))
        os.unlink("d/1")
        os.rename("d/0", "d/9")
        os.lseek(fd, 0, os.SEEK_SET)
        seen.append(sorted(entry[0] for entry in everything(fd)))
        os.close(fd)
        return seen

    compare(pair, anew)


def test_rm_of_trees(pair):
    def trees():
        for one in range(10):
            for other in range(10):
                os.makedirs(f"top/{one}/{other}/deep")
                for number in range(5):
                    os.mknod(f"top/{one}/{other}/{number}")
        codes = [subprocess.run(["rm", "-rf", "top"], check=False).returncode]
        return codes, os.listdir()

    compare(pair, trees)


def test_deep_trees(pair):
    def deep():
        depth = 0
        while depth < 300:
            os.mkdir("directory-of-some-length")
            os.chdir("directory-of-some-length")
            depth += 1
        with open("file", "w", encoding="utf-8") as file:
            file.write("deep")
        seen = {
            "file": facts("file"),
            "cwd": tried(os.getcwd) == "ENAMETOOLONG",
            "links": os.stat("../..").st_nlink,
        }
        for _ in range(depth):
            os.chdir("..")
        seen["rm"] = subprocess.run(
            ["rm", "-r", "directory-of-some-length"], check=False
        ).returncode
        seen["left"] = os.listdir()
        return seen

    compare(pair, deep)


def test_links_of_directories(pair):
    def links():
        os.mkdir("d")
        seen = [os.stat("d").st_nlink]
        for number in range(5):
            os.mkdir(f"d/{number}")
            os.mknod(f"d/f{number}")
            seen.append(os.stat("d").st_nlink)
        os.rmdir("d/0")
        os.rename("d/1", "e")
        os.unlink("d/f1")
        seen += [os.stat("d").st_nlink, os.stat("e").st_nlink, os.stat(".").st_nlink]
        os.mkdir("d/2/x")
        os.rename("e", "d/3")
        seen += [os.stat("d").st_nlink, tried(os.rename, "d/3", "d/2"), os.stat("d").st_nlink]
        return seen

    compare(pair, links)


def test_many_names_of_one_file(pair):
    def names():
        make("file", "x")
        for number in range(2000):
            os.link("x", f"l{number}")
        seen = [os.stat("x").st_nlink]
        for number in range(0, 2000, 2):
            os.unlink(f"l{number}")
        return [*seen, os.stat("l1").st_nlink, len(os.listdir())]

    compare(pair, names)


def test_two_sync_a_directory(pair):
    def syncs():
        os.mkdir("d")
        fd = os.open("d", os.O_RDONLY)
        os.mknod("d/x")
        seen = [
            tried(os.fsync, fd),
            tried(os.fdatasync, fd),
            tried(lambda: checked(LIBC.syncfs(fd))),
        ]
        os.close(fd)
        return seen

    compare(pair, syncs)


def test_times_of_a_listing_from_memory(pair):
    def listing():
        fill(3)
        os.utime("d")
        before = times("d")
        tick()
        os.listdir("d")
        os.listdir("d")
        after = times("d")
        return before["m"] == after["m"], before["c"] == after["c"]

    compare(pair, listing)


def test_space(pair):
    def space():
        info = os.statvfs(".")
        return {
            "name": info.f_namemax,
            "block": info.f_bsize,
            "fragment": info.f_frsize,
            "blocks": info.f_blocks >= info.f_bfree >= info.f_bavail > 0,
            "files": info.f_files >= info.f_ffree > 0,
            "flags": info.f_flag & (os.ST_RDONLY | os.ST_NOSUID),
            "same": os.statvfs(".")[:3] == os.fstatvfs(os.open(".", os.O_RDONLY))[:3],
            "path name": os.pathconf(".", "PC_NAME_MAX"),
        }

    compare(pair, space)


def test_one_name_made_by_many(pair):
    """O_EXCL gives it to one of them."""

    def race():
        pids = []
        reader, writer = os.pipe()
        for _ in range(8):
            pid = os.fork()
            if pid == 0:
                os.write(writer, opened("x", os.O_CREAT | os.O_EXCL | os.O_RDWR)[0].encode())
                os._exit(0)
            pids.append(pid)
        for pid in pids:
            os.waitpid(pid, 0)
        got = sorted(os.read(reader, 100))
        os.close(reader)
        os.close(writer)
        return got

    compare(pair, race)


def test_what_differs_is_told_to_users():
    assert all_in_semantics() == []
