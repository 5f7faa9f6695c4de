"""Names, attributes and permissions through a real mount."""

import contextlib
import errno
import os
import socket
import stat
import subprocess
import sys
import threading
import time

import pytest
from mount_tools import needs_fuse

pytest_plugins = ["mounted_volume"]
pytestmark = needs_fuse


def fails(number, call, *arguments, **options):
    with pytest.raises(OSError) as raised:
        call(*arguments, **options)
    assert raised.value.errno == number, raised.value


def as_user(uid, folder, call):
    """In a process of that user, in the folder, which may be out of reach; what it raised."""
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            os.chdir(folder)
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            call()
        except OSError as error:
            code = error.errno
        except BaseException:
            code = 255
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_kinds(volume, mounted):
    (mounted / "file").write_text("x")
    (mounted / "folder").mkdir()
    (mounted / "link").symlink_to("some/where " + "x" * 200)
    os.mkfifo(mounted / "fifo", 0o640)
    os.mknod(mounted / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(mounted / "block", stat.S_IFBLK | 0o600, os.makedev(7, 300))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(mounted / "socket"))
    for _ in range(2):
        kinds = {entry.name: stat.S_IFMT(os.lstat(entry).st_mode) for entry in mounted.iterdir()}
        assert kinds == {
            "file": stat.S_IFREG,
            "folder": stat.S_IFDIR,
            "link": stat.S_IFLNK,
            "fifo": stat.S_IFIFO,
            "null": stat.S_IFCHR,
            "block": stat.S_IFBLK,
            "socket": stat.S_IFSOCK,
        }
        assert os.readlink(mounted / "link") == "some/where " + "x" * 200
        assert os.lstat(mounted / "null").st_rdev == os.makedev(1, 3)
        assert os.lstat(mounted / "block").st_rdev == os.makedev(7, 300)
        assert stat.S_IMODE(os.lstat(mounted / "fifo").st_mode) == 0o640
        with open(mounted / "null", "wb") as null:
            null.write(b"gone")
        volume.remount()


def test_a_fifo_carries_bytes(mounted):
    os.mkfifo(mounted / "fifo")
    got = []
    reader = threading.Thread(target=lambda: got.append((mounted / "fifo").read_bytes()))
    reader.start()
    (mounted / "fifo").write_bytes(b"through")
    reader.join(10)
    assert got == [b"through"]


def test_names_of_any_bytes(volume, mounted):
    names = [b"x" * 255, bytes(range(1, 47)), bytes(range(48, 256)), "ä€😀".encode(), b"\xff\xfe"]
    names += [b"a,b\\c", b"-o ro", b"...", b" "]
    folder = os.fsencode(mounted)
    for name in names:
        with open(os.path.join(folder, name), "wb") as file:
            file.write(name)
    volume.remount()
    assert sorted(os.listdir(folder)) == sorted(names)
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            assert file.read() == name
    fails(errno.ENAMETOOLONG, os.mkdir, os.path.join(folder, b"x" * 256))


def test_the_usual_refusals(mounted):
    (mounted / "file").touch()
    (mounted / "folder/inside").mkdir(parents=True)
    fails(errno.EEXIST, os.mkdir, mounted / "file")
    fails(errno.ENOENT, os.unlink, mounted / "none")
    fails(errno.ENOTDIR, os.rmdir, mounted / "file")
    fails(errno.EISDIR, os.unlink, mounted / "folder")
    fails(errno.ENOTEMPTY, os.rmdir, mounted / "folder")
    fails(errno.ENOTDIR, os.stat, mounted / "file/x")
    fails(errno.EINVAL, os.rename, mounted / "folder", mounted / "folder/inside/x")
    fails(errno.ENOTDIR, os.rename, mounted / "folder", mounted / "file")
    fails(errno.EISDIR, os.rename, mounted / "file", mounted / "folder")
    fails(errno.EPERM, os.link, mounted / "folder", mounted / "second")
    fails(errno.EEXIST, os.open, mounted / "file", os.O_CREAT | os.O_EXCL)
    fails(errno.EXDEV, os.rename, mounted / "file", mounted.parent / "file")


def test_rename(mounted):
    (mounted / "a").write_text("a")
    (mounted / "b").write_text("b")
    with open(mounted / "b", encoding="utf-8") as replaced:
        os.rename(mounted / "a", mounted / "b")
        assert replaced.read() == "b"
        assert os.fstat(replaced.fileno()).st_nlink == 0
    assert (mounted / "b").read_text() == "a" and os.listdir(mounted) == ["b"]
    (mounted / "one/two").mkdir(parents=True)
    (mounted / "other").mkdir()
    os.rename(mounted / "one/two", mounted / "other/two")
    assert os.stat(mounted / "other/two/..").st_ino == os.stat(mounted / "other").st_ino
    assert os.stat(mounted / "one").st_nlink == 2 and os.stat(mounted / "other").st_nlink == 3


def test_rename_of_two_kinds(mounted):
    libc = __import__("ctypes").CDLL(None, use_errno=True)

    def renameat2(a, b, flags):
        return libc.renameat2(-100, os.fsencode(mounted / a), -100, os.fsencode(mounted / b), flags)

    (mounted / "a").write_text("a")
    (mounted / "b").write_text("b")
    assert renameat2("a", "b", 1) == -1  # RENAME_NOREPLACE
    assert renameat2("a", "b", 2) == 0  # RENAME_EXCHANGE
    assert ((mounted / "a").read_text(), (mounted / "b").read_text()) == ("b", "a")
    assert renameat2("a", "c", 1) == 0
    assert sorted(os.listdir(mounted)) == ["b", "c"]


def test_hard_links(volume, mounted):
    (mounted / "a").write_text("x")
    os.link(mounted / "a", mounted / "b")
    assert os.stat(mounted / "a").st_nlink == 2
    assert os.stat(mounted / "a").st_ino == os.stat(mounted / "b").st_ino
    with (mounted / "b").open("a") as file:
        file.write("y")
    assert (mounted / "a").read_text() == "xy"
    volume.remount()
    os.unlink(mounted / "a")
    assert os.stat(mounted / "b").st_nlink == 1 and (mounted / "b").read_text() == "xy"


def test_what_is_open_outlives_its_name(volume, mounted):
    content = os.urandom(2_000_000)
    (mounted / "file").write_bytes(content)
    inodes = os.statvfs(mounted).f_ffree
    with open(mounted / "file", "r+b") as file:
        os.unlink(mounted / "file")
        assert os.listdir(mounted) == []
        assert file.read() == content
        file.seek(0)
        file.write(b"changed")
        file.flush()
        assert os.fstat(file.fileno()).st_nlink == 0
        assert os.statvfs(mounted).f_ffree == inodes
    deadline = time.monotonic() + 10
    while os.statvfs(mounted).f_ffree == inodes and time.monotonic() < deadline:
        time.sleep(0.05)
    assert os.statvfs(mounted).f_ffree == inodes + 1, "it goes with the last who has it open"
    with contextlib.suppress(OSError), open(mounted / "again", "wb") as file:
        os.unlink(mounted / "again")
        file.write(content)
        volume.kill()
    volume.remount()
    assert os.statvfs(mounted).f_ffree == inodes + 1, "and with a process that died"


def test_permissions(mounted):
    os.chmod(mounted, 0o755)
    (mounted / "secret").write_text("x")
    os.chmod(mounted / "secret", 0o600)
    (mounted / "sticky").mkdir()
    os.chmod(mounted / "sticky", 0o1777)
    (mounted / "sticky/roots").touch()
    assert as_user(1000, mounted, lambda: open("secret", encoding="utf-8")) == errno.EACCES
    assert as_user(1000, mounted, lambda: os.mkdir("x")) == errno.EACCES
    assert as_user(1000, mounted, lambda: os.unlink("sticky/roots")) == errno.EPERM
    assert as_user(1000, mounted, lambda: os.mkdir("sticky/mine")) == 0
    assert os.stat(mounted / "sticky/mine").st_uid == 1000
    assert as_user(1001, mounted, lambda: os.rmdir("sticky/mine")) == errno.EPERM
    assert as_user(1000, mounted, lambda: os.chown("sticky/mine", 1001, -1)) == errno.EPERM


def test_special_bits(volume, mounted):
    os.chmod(mounted, 0o777)
    (mounted / "group").mkdir()
    os.chown(mounted / "group", 0, 4321)
    os.chmod(mounted / "group", 0o2775)
    (mounted / "group/file").touch()
    (mounted / "group/folder").mkdir()
    assert os.stat(mounted / "group/file").st_gid == 4321
    assert stat.S_IMODE(os.stat(mounted / "group/folder").st_mode) & 0o2000
    (mounted / "program").write_text("x")
    os.chown(mounted / "program", 1000, 1000)
    os.chmod(mounted / "program", 0o6777)
    assert stat.S_IMODE(os.stat(mounted / "program").st_mode) == 0o6777

    def append():
        with open("program", "a", encoding="utf-8") as file:
            file.write("y")

    assert as_user(1000, mounted, append) == 0
    assert stat.S_IMODE(os.stat(mounted / "program").st_mode) == 0o777, "writing takes them away"
    for change in (
        lambda: os.truncate("program", 0),
        lambda: open("program", "w", encoding="utf-8").close(),
        lambda: os.chown("program", -1, 1000),
    ):
        os.chmod(mounted / "program", 0o6777)
        assert as_user(1000, mounted, change) == 0
        assert stat.S_IMODE(os.stat(mounted / "program").st_mode) == 0o777
    capability = bytes.fromhex("00000002" + "00040000" + "00" * 12)  # cap_net_bind_service
    os.setxattr(mounted / "program", "security.capability", capability)
    assert os.getxattr(mounted / "program", "security.capability") == capability
    with open(mounted / "program", "a", encoding="utf-8") as file:
        file.write("z")
    fails(errno.ENODATA, os.getxattr, mounted / "program", "security.capability")
    volume.remount()
    assert stat.S_IMODE(os.stat(mounted / "program").st_mode) == 0o777
    assert stat.S_IMODE(os.stat(mounted / "group").st_mode) == 0o2775


def test_times(volume, mounted):
    (mounted / "file").write_text("x")
    os.utime(mounted / "file", ns=(1_000_000_000_123_456_789, -5_000_000_001))
    for _ in range(2):
        info = os.stat(mounted / "file")
        assert info.st_atime_ns == 1_000_000_000_123_456_789
        assert info.st_mtime_ns == -5_000_000_001
        volume.remount("--noatime")
    before = os.stat(mounted)
    time.sleep(0.02)
    (mounted / "new").touch()
    after = os.stat(mounted)
    assert after.st_mtime_ns > before.st_mtime_ns and after.st_ctime_ns > before.st_ctime_ns
    (mounted / "new").write_text("x")
    written = os.stat(mounted / "new")
    volume.remount()
    again = os.stat(mounted / "new")
    assert again.st_mtime_ns == written.st_mtime_ns and again.st_size == 1


def test_times_of_access(volume, mounted):
    (mounted / "file").write_text("x")
    long_ago = 1_000_000_000_000_000_000

    def read_after(*options):
        os.utime(mounted / "file", ns=(long_ago, long_ago + 1))
        volume.remount(*options)
        (mounted / "file").read_text()
        shown = os.stat(mounted / "file").st_atime_ns
        volume.remount("--noatime")
        assert os.stat(mounted / "file").st_atime_ns == shown
        return shown

    assert read_after("--noatime") == long_ago
    assert read_after("--relatime") > long_ago
    assert read_after() > long_ago
    assert read_after("--strictatime") > long_ago


def test_extended_attributes(volume, mounted):
    file = mounted / "file"
    file.touch()
    os.setxattr(file, "user.a", b"1")
    os.setxattr(file, "user.empty", b"")
    os.setxattr(file, "trusted.b", bytes(range(256)))
    os.setxattr(file, "user.large", b"x" * 65_536)
    fails(errno.EEXIST, os.setxattr, file, "user.a", b"2", os.XATTR_CREATE)
    fails(errno.ENODATA, os.setxattr, file, "user.none", b"2", os.XATTR_REPLACE)
    fails(errno.ENODATA, os.getxattr, file, "user.none")
    fails(errno.EOPNOTSUPP, os.getxattr, file, "system.posix_acl_access")
    volume.remount()
    assert sorted(os.listxattr(file)) == ["trusted.b", "user.a", "user.empty", "user.large"]
    assert os.getxattr(file, "trusted.b") == bytes(range(256))
    assert os.getxattr(file, "user.empty") == b""
    assert len(os.getxattr(file, "user.large")) == 65_536
    os.removexattr(file, "user.a")
    fails(errno.ENODATA, os.removexattr, file, "user.a")
    assert "user.a" not in os.listxattr(file)


@pytest.mark.skipif(
    subprocess.run(["which", "setfacl"], capture_output=True).returncode != 0, reason="no setfacl"
)
def test_access_control_lists(volume):
    volume.mount("--acl")
    folder = volume.folder / "folder"
    folder.mkdir()
    subprocess.run(["setfacl", "-m", "u:1234:rwx,d:u:1234:rw", folder], check=True)
    (folder / "file").touch()
    shown = subprocess.run(
        ["getfacl", "-n", "-p", folder / "file"], capture_output=True, text=True, check=True
    ).stdout
    assert "user:1234:rw-" in shown
    assert as_user(1234, folder, lambda: open("file", "w", encoding="utf-8")) == 0
    assert as_user(1235, folder, lambda: open("file", "w", encoding="utf-8")) == errno.EACCES
    os.chmod(folder / "file", 0o600)
    assert as_user(1234, folder, lambda: open("file", "w", encoding="utf-8")) == errno.EACCES


def test_many_names(volume, mounted):
    count = 20_000
    (mounted / "many").mkdir()
    names = [f"file-{number:06}" for number in range(count)]
    for name in names:
        os.close(os.open(mounted / "many" / name, os.O_CREAT | os.O_WRONLY))
    assert sorted(os.listdir(mounted / "many")) == names
    volume.remount()
    assert sorted(os.listdir(mounted / "many")) == names
    with os.scandir(mounted / "many") as entries:
        assert sum(entry.stat().st_size == 0 for entry in entries) == count
    # Taken away while it is listed: none is left out.
    with os.scandir(mounted / "many") as entries:
        for entry in entries:
            os.unlink(entry)
    assert os.listdir(mounted / "many") == []
    os.rmdir(mounted / "many")


def test_locks(mounted):
    script = """
import fcntl, sys
file = open(sys.argv[1], "r+")
try:
    getattr(fcntl, sys.argv[2])(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(7)
"""
    import fcntl

    (mounted / "file").touch()

    def other(kind):
        return subprocess.run(
            [sys.executable, "-c", script, mounted / "file", kind], check=False
        ).returncode

    with open(mounted / "file", "r+", encoding="utf-8") as file:
        for kind in ("flock", "lockf"):
            getattr(fcntl, kind)(file, fcntl.LOCK_EX)
            assert other(kind) == 7
            getattr(fcntl, kind)(file, fcntl.LOCK_UN)
            assert other(kind) == 0
