"""The same operations on a mount and on the machine's own file system, and what both made of them.

A case is a function without arguments that works in its current directory, which is empty and, on
the one side, a folder of a mounted volume, on the other one of ext4 or XFS. It returns what it
observed: names of errors, attributes, which times changed, as nested dicts and tuples. `compare`
runs it on both sides; where they differ it fails, unless the difference is in INTENDED.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import pathlib
import pickle
import re
import socket
import stat
import subprocess
import time

import pytest
from mount_tools import ROOT
from posix_intended import INTENDED

USER, OTHER = 65534, 65533
LIBC = ctypes.CDLL(None, use_errno=True)
# Of the kinds that can be opened without waiting; a block device that nobody has.
KINDS = ("file", "folder", "fifo", "socket", "char", "block", "link", "dangling", "loop")
# So that a time of the kernel's coarse clock is another one.
TICK_SECONDS = 0.02
with_and_without_gathering = pytest.mark.parametrize(
    "pair", [(), ("--gather-writes",)], ids=["at once", "gathered"], indirect=True
)


def require_peer(path):
    """Skips where the machine's own file system is none that can be compared to."""
    done = subprocess.run(
        ["stat", "-f", "-c", "%T", path], capture_output=True, text=True, check=True
    )
    if done.stdout.strip() not in ("ext2/ext3", "xfs"):
        pytest.skip("the temporary directory is neither on ext4 nor on XFS: nothing to compare to")


def compare(pair, case):
    """Runs it on both sides and fails where they differ."""
    name = case.__name__ + (" gathered" if is_gathered(pair) else "")
    compare_seen(name, *(observe(side, case) for side in pair))


def is_gathered(pair):
    """Whether the mount has --gather-writes: its folder is called so."""
    return pair[0].parent.name.startswith("gathered")


def compare_seen(name, ours, theirs):
    differences = []
    collect(differences, ours, theirs, ())
    left = [line for path, line in differences if not is_intended(name, path)]
    assert not left, f"{len(left)} differences from the file system beside it:\n" + "\n".join(left)


def observe(side, case):
    folder = pathlib.Path(side) / case.__name__
    folder.mkdir()
    back = os.getcwd()
    os.chdir(folder)
    try:
        return case()
    finally:
        os.chdir(back)


def collect(found, ours, theirs, path):
    if ours == theirs:
        return
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in {**ours, **theirs}:
            collect(found, ours.get(key), theirs.get(key), (*path, str(key)))
        return
    name = " / ".join(path)
    found.append((name, f"  {name}: here {ours!r}, there {theirs!r}"))


def is_intended(case, path):
    return any(
        re.fullmatch(entry.case, case) and re.fullmatch(entry.path, path) for entry in INTENDED
    )


def all_in_semantics():
    """What of INTENDED the page for users does not tell."""
    text = (ROOT / "docs/SEMANTICS.md").read_text().replace("\n", " ")
    text = re.sub(" +", " ", text)
    return [entry for entry in INTENDED if entry.told not in text]


# What happened.


def tried(call, *arguments, **options):
    """What it returned, "ok" for nothing, or the name of its error."""
    try:
        result = call(*arguments, **options)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    except ValueError as error:
        return f"ValueError {error}"
    return "ok" if result is None else result


def opened(path, flags, mode=0o666, **options):
    """As tried(), of an open that is closed again."""
    result = tried(os.open, path, flags, mode, **options)
    if isinstance(result, str):
        return result
    os.close(result)
    return "ok"


def checked(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def renameat2(a, b, flags):
    checked(LIBC.renameat2(-100, os.fsencode(a), -100, os.fsencode(b), flags))


def fallocate(fd, mode, offset, length):
    checked(LIBC.fallocate(fd, ctypes.c_int(mode), ctypes.c_long(offset), ctypes.c_long(length)))


def chmod_no_follow(path, mode):
    checked(LIBC.fchmodat(-100, os.fsencode(path), ctypes.c_uint(mode), 0x100))


# Who does it.


@contextlib.contextmanager
def user(uid, gid=None, groups=()):
    """The effective user and groups of this process, without any privilege."""
    before = os.getgroups()
    os.setgroups(list(groups))
    os.setegid(uid if gid is None else gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before)


def acting(identity):
    """As user(*identity), or as root for None."""
    return contextlib.nullcontext() if identity is None else user(*identity)


def in_child(call, uid=None):
    """What `call` returned in a process of its own, of that user in every respect."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            if uid is not None:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            with os.fdopen(writer, "wb") as out:
                pickle.dump(call(), out)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as back:
        data = back.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return pickle.loads(data) if status == 0 else f"ended with {status}"


# What is there.


def make(kind, name):
    """Something of that kind; "none" is nothing."""
    if kind == "file":
        fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        os.write(fd, b"content")
        os.close(fd)
    elif kind == "folder":
        os.mkdir(name)
    elif kind == "full":
        os.makedirs(f"{name}/inside")
    elif kind == "fifo":
        os.mkfifo(name, 0o644)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
    elif kind == "char":
        os.mknod(name, stat.S_IFCHR | 0o644, os.makedev(1, 3))
    elif kind == "block":
        os.mknod(name, stat.S_IFBLK | 0o644, os.makedev(7, 300))
    elif kind == "link":
        if not os.path.lexists("target"):
            make("file", "target")
        os.symlink(os.path.abspath("target"), name)
    elif kind == "dangling":
        os.symlink("nowhere", name)
    elif kind == "loop":
        os.symlink(os.path.basename(name), name)
    else:
        assert kind == "none"


def facts(path, follow=False):
    """Of an inode, all that does not depend on where and when it was made."""
    try:
        info = os.stat(path, follow_symlinks=follow)
    except OSError as error:
        return errno.errorcode[error.errno]
    size = None if stat.S_ISDIR(info.st_mode) else info.st_size
    if stat.S_ISLNK(info.st_mode):
        size = len(os.readlink(path)) == size
    return (oct(info.st_mode), info.st_uid, info.st_gid, info.st_nlink, size, info.st_rdev)


def census(top="."):
    """{name: facts} of everything below."""
    found = {"": facts(top)}
    for entry in os.scandir(top):
        if entry.is_dir(follow_symlinks=False):
            below = census(entry.path)
            found.update({os.path.join(entry.name, name): of for name, of in below.items()})
        else:
            found[entry.name] = facts(entry.path)
    return found


@contextlib.contextmanager
def folder(name):
    """A new one, to work in."""
    os.mkdir(name)
    os.chmod(name, 0o777)
    os.chdir(name)
    try:
        yield
    finally:
        os.chdir("..")


def times(path):
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return {"a": info.st_atime_ns, "m": info.st_mtime_ns, "c": info.st_ctime_ns}


def changed(before, after):
    """The letters of the times that are others: "mc"."""
    if before is None or after is None:
        return "gone" if after is None else "new"
    return "".join(name for name in "amc" if before[name] != after[name])


def tick():
    time.sleep(TICK_SECONDS)


def flags_of(fd):
    return fcntl.fcntl(fd, fcntl.F_GETFL)
