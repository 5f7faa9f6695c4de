"""open() with all its flags, and what can be done with what is open, beside ext4."""

import ctypes
import itertools
import os
import shutil
import signal
import stat
import subprocess

import pytest
from mount_tools import needs_fuse
from posix_pair import (
    KINDS,
    LIBC,
    OTHER,
    USER,
    census,
    checked,
    compare,
    facts,
    folder,
    in_child,
    make,
    opened,
    tried,
    user,
)

pytest_plugins = ["mounted_pair"]
pytestmark = needs_fuse

WAYS = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}
FLAGS = {
    "creat": os.O_CREAT,
    "excl": os.O_EXCL,
    "trunc": os.O_TRUNC,
    "append": os.O_APPEND,
    "nofollow": os.O_NOFOLLOW,
    "directory": os.O_DIRECTORY,
}
EMPTY_PATH, FOLLOW = 0x1000, 0x400


def all_flags():
    for way, name in itertools.product(WAYS, range(1 << len(FLAGS))):
        chosen = [flag for number, flag in enumerate(FLAGS) if name >> number & 1]
        yield " ".join([way, *chosen]), WAYS[way] | sum(FLAGS[flag] for flag in chosen)


@pytest.mark.parametrize("kind", [*KINDS, "none"])
def test_all_flags(pair, kind):
    def flags():
        seen = {}
        for name, value in all_flags():
            with folder(str(len(seen))):
                make(kind, "x")
                got = opened("x", value | os.O_NONBLOCK)
                target = facts("nowhere") if kind == "dangling" else None
                seen[name] = (got, facts("x"), target, sorted(os.listdir()))
        return seen

    flags.__name__ = f"flags_{kind}"
    compare(pair, flags)


@pytest.mark.parametrize("who", [USER, OTHER])
def test_all_flags_of_somebody_without_rights(pair, who):
    def flags():
        seen = {}
        for mode in (0o000, 0o400, 0o200, 0o600, 0o006, 0o004, 0o002, 0o040, 0o020):
            for name, value in all_flags():
                if "append" in name or "directory" in name:
                    continue
                make("file", "x")
                os.chown("x", USER, USER)
                os.chmod("x", mode)
                with user(who):
                    got = opened("x", value)
                seen[f"{mode:o} {name}"] = (got, facts("x"))
                os.unlink("x")
        return seen

    flags.__name__ = f"rights_{who}"
    compare(pair, flags)


def test_modes_that_are_refused_to_who_makes_it(pair):
    """Who makes a file may use it, whatever its mode."""

    def made():
        seen = {}
        os.chmod(".", 0o777)
        for mode in (0, 0o400, 0o200, 0o444):
            for way, flag in WAYS.items():
                name = f"{mode}-{way}"
                with user(USER):
                    fd = os.open(name, os.O_CREAT | os.O_EXCL | flag, mode)
                    wrote = tried(os.write, fd, b"x")
                    read = tried(os.pread, fd, 1, 0)
                    os.close(fd)
                    seen[name] = (wrote, read, opened(name, flag), facts(name))
        return seen

    compare(pair, made)


def test_without_reading_times(pair):
    def no_atime():
        make("file", "x")
        os.chmod("x", 0o666)
        seen = {"root": opened("x", os.O_RDONLY | os.O_NOATIME)}
        with user(USER):
            seen["other"] = opened("x", os.O_RDONLY | os.O_NOATIME)
        os.chown("x", USER, USER)
        with user(USER):
            seen["owner"] = opened("x", os.O_RDONLY | os.O_NOATIME)
        return seen

    compare(pair, no_atime)


def test_a_program_that_runs(pair):
    def busy():
        shutil.copy("/bin/sleep", "program")
        os.chmod("program", 0o755)
        running = subprocess.Popen(["./program", "60"])
        try:
            with open(f"/proc/{running.pid}/exe", "rb"):
                pass
            seen = {
                "write": opened("program", os.O_WRONLY),
                "cut": opened("program", os.O_RDWR | os.O_TRUNC),
                "truncate": tried(os.truncate, "program", 1),
                "read": opened("program", os.O_RDONLY),
                "chmod": tried(os.chmod, "program", 0o711),
                "rename": tried(os.rename, "program", "moved"),
                "unlink": tried(os.unlink, "moved"),
                "runs": running.poll(),
            }
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
        shutil.copy("/bin/true", "second")
        os.chmod("second", 0o755)
        with open("second", "r+b"):
            seen["run"] = tried(lambda: subprocess.run(["./second"], check=False).returncode)
        seen["run then"] = tried(lambda: subprocess.run(["./second"], check=False).returncode)
        os.chmod("second", 0o644)
        seen["no bit"] = tried(lambda: subprocess.run(["./second"], check=False).returncode)
        return seen

    compare(pair, busy)


def linkat(fd, path, new, flags):
    checked(LIBC.linkat(fd, os.fsencode(path), -100, os.fsencode(new), flags))


def test_files_without_a_name(pair):
    def nameless():
        fd = os.open("x", os.O_CREAT | os.O_RDWR)
        os.write(fd, b"0123456789")
        os.link("x", "second")
        seen = {"two": os.fstat(fd).st_nlink}
        os.unlink("x")
        seen["one"] = os.fstat(fd).st_nlink
        os.unlink("second")
        seen["none"] = os.fstat(fd).st_nlink
        seen["write"] = tried(os.pwrite, fd, b"AB", 20)
        seen["cut"] = tried(os.ftruncate, fd, 21)
        seen["read"] = os.pread(fd, 100, 0)
        seen["chmod"] = tried(os.fchmod, fd, 0o600)
        seen["chown"] = tried(os.fchown, fd, 5, 6)
        seen["utime"] = tried(os.utime, fd, ns=(1, 2))
        seen["xattr"] = tried(os.setxattr, fd, "user.a", b"1")
        seen["xattrs"] = os.listxattr(fd)
        seen["fsync"] = tried(os.fsync, fd)
        info = os.fstat(fd)
        seen["all"] = (oct(info.st_mode), info.st_uid, info.st_size, info.st_mtime_ns)
        seen["link by fd"] = tried(linkat, -100, f"/proc/self/fd/{fd}", "again", FOLLOW)
        seen["link empty"] = tried(linkat, fd, "", "again", EMPTY_PATH)
        seen["reopened"] = tried(lambda: open(f"/proc/self/fd/{fd}", "rb").read())
        seen["new one"] = opened("x", os.O_CREAT | os.O_EXCL | os.O_RDWR)
        seen["still"] = os.pread(fd, 3, 0)
        os.close(fd)
        return seen, census()

    compare(pair, nameless)


def test_directories_without_a_name(pair):
    def nameless_directories():
        os.mkdir("d")
        fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
        os.rmdir("d")
        seen = {
            "links": os.fstat(fd).st_nlink,
            "list": tried(os.listdir, fd),
            "make": opened("x", os.O_CREAT | os.O_RDWR, dir_fd=fd),
            "mkdir": tried(os.mkdir, "x", dir_fd=fd),
            "symlink": tried(os.symlink, "x", "y", dir_fd=fd),
            "mkfifo": tried(os.mkfifo, "y", dir_fd=fd),
            "rename": tried(os.rename, "../none", "y", dst_dir_fd=fd),
            "find": tried(os.stat, "x", dir_fd=fd),
            "self": tried(lambda: os.stat(".", dir_fd=fd).st_nlink),
            "chmod": tried(os.fchmod, fd, 0o700),
            "fsync": tried(os.fsync, fd),
        }
        make("file", "file")
        seen["link"] = tried(os.link, "file", "y", dst_dir_fd=fd)
        seen["move"] = tried(os.rename, "file", "y", dst_dir_fd=fd)
        os.close(fd)
        os.mkdir("e")
        os.chdir("e")
        os.rmdir("../e")
        seen["cwd"] = tried(os.getcwd)
        seen["stat"] = tried(lambda: os.stat(".").st_nlink)
        seen["create"] = opened("x", os.O_CREAT | os.O_RDWR)
        os.chdir("..")
        return seen

    compare(pair, nameless_directories)


def test_paths_that_are_open(pair):
    def paths():
        make("file", "file")
        os.mkdir("d")
        os.symlink("file", "l")
        seen = {}
        for name in ("file", "d", "l"):
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW)
            seen[name] = {
                "read": tried(os.read, fd, 1),
                "write": tried(os.write, fd, b"x"),
                "chmod": tried(os.fchmod, fd, 0o600),
                "mode": oct(os.fstat(fd).st_mode),
                "size": tried(os.ftruncate, fd, 1),
                "sync": tried(os.fsync, fd),
                "again": opened(f"/proc/self/fd/{fd}", os.O_RDONLY),
                "link": tried(linkat, fd, "", f"{name}2", EMPTY_PATH),
                "readlink": tried(os.readlink, "", dir_fd=fd),
                "lock": tried(lambda fd=fd: __import__("fcntl").flock(fd, 2)),
            }
            os.close(fd)
        return seen, census()

    compare(pair, paths)


def test_through_proc(pair):
    def again():
        fd = os.open("x", os.O_CREAT | os.O_RDWR, 0o600)
        os.write(fd, b"content")
        seen = {"link": os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))}
        os.rename("x", "y")
        seen["renamed"] = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        os.unlink("y")
        seen["removed"] = os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))
        with open(f"/proc/self/fd/{fd}", "r+b") as other:
            other.write(b"CON")
        seen["read"] = os.pread(fd, 9, 0)
        seen["cut"] = opened(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_TRUNC)
        seen["size"] = os.fstat(fd).st_size
        os.close(fd)
        return seen

    compare(pair, again)


def test_temporary_files(pair):
    def temporary():
        seen = {way: opened(".", flag | os.O_TMPFILE, 0o600) for way, flag in WAYS.items()}
        make("file", "file")
        seen["file"] = opened("file", os.O_RDWR | os.O_TMPFILE, 0o600)
        seen["none"] = opened("none", os.O_RDWR | os.O_TMPFILE, 0o600)
        return {**seen, "there": census()}

    compare(pair, temporary)


def test_access(pair):
    def accesses():
        seen = {}
        for kind in ("file", "folder", "fifo", "char"):
            for mode in (0, 0o111, 0o222, 0o444, 0o100, 0o200, 0o400, 0o777):
                name = f"{kind}-{mode:o}"
                make(kind, name)
                os.chown(name, USER, USER)
                os.chmod(name, mode)

        def ask():
            return {
                (name, way): os.access(name, way)
                for name in sorted(os.listdir())
                for way in (os.F_OK, os.R_OK, os.W_OK, os.X_OK, os.R_OK | os.W_OK)
            }

        os.chmod(".", 0o777)
        for uid in (0, USER, OTHER):
            seen[uid] = in_child(ask, uid)
        return seen

    compare(pair, accesses)


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("handle", ctypes.c_ubyte * 128)]


def handle_of(path):
    handle, mount = Handle(128), ctypes.c_int()
    name = os.fsencode(path)
    checked(LIBC.name_to_handle_at(-100, name, ctypes.byref(handle), ctypes.byref(mount), 0))
    return handle


def open_handle(handle):
    top = os.open(".", os.O_RDONLY)
    try:
        return checked(LIBC.open_by_handle_at(top, ctypes.byref(handle), os.O_RDONLY))
    finally:
        os.close(top)


def test_handles(pair):
    def handles():
        seen = {}
        for kind in ("file", "folder"):
            make(kind, kind)
            handle = handle_of(kind)
            fd = open_handle(handle)
            seen[kind] = os.fstat(fd).st_ino == os.stat(kind).st_ino
            os.close(fd)
            os.rmdir(kind) if kind == "folder" else os.unlink(kind)
            seen[f"{kind} gone"] = tried(open_handle, handle)
        return seen

    compare(pair, handles)


def test_modes_of_open_sockets_and_fifos(pair):
    def fifo():
        os.mkfifo("fifo")
        seen = {"alone": opened("fifo", os.O_WRONLY | os.O_NONBLOCK)}
        reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open("fifo", os.O_WRONLY | os.O_NONBLOCK)
        os.write(writer, b"through")
        seen["read"] = os.read(reader, 99)
        seen["cut"] = tried(os.ftruncate, writer, 0)
        seen["seek"] = tried(os.lseek, reader, 0, 0)
        seen["sync"] = tried(os.fsync, writer)
        seen["facts"] = facts("fifo")
        seen["mode"] = stat.S_ISFIFO(os.fstat(reader).st_mode)
        os.unlink("fifo")
        os.write(writer, b"still")
        seen["still"] = os.read(reader, 99)
        os.close(reader)
        os.close(writer)
        return seen

    compare(pair, fifo)
