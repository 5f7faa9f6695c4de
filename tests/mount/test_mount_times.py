"""Which times change with what, and which do not: as POSIX says, for each kind of file."""

import os
import stat
import time

import pytest
from mount_tools import needs_fuse

pytest_plugins = ["mounted_volume"]
pytestmark = needs_fuse


def make(path, kind):
    if kind == "file":
        path.write_text("content")
    elif kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))


def times(path):
    info = os.lstat(path)
    return {"mtime": info.st_mtime_ns, "ctime": info.st_ctime_ns}


def changed(path, change):
    """The names of the times of `path` that `change` changed; none ever goes back."""
    before = times(path)
    time.sleep(0.02)
    change()
    after = times(path)
    assert all(after[name] >= before[name] for name in before)
    return {name for name in before if after[name] != before[name]}


@pytest.mark.parametrize("kind", ["file", "folder", "fifo", "device"])
def test_of_an_inode(mounted, kind):
    path = mounted / "x"
    make(path, kind)
    assert changed(path, lambda: os.chmod(path, 0o711)) == {"ctime"}
    assert changed(path, lambda: os.chown(path, 5, 6)) == {"ctime"}
    assert changed(path, lambda: os.setxattr(path, "trusted.a", b"1")) == {"ctime"}
    assert changed(path, lambda: os.removexattr(path, "trusted.a")) == {"ctime"}
    assert changed(path, lambda: os.lstat(path)) == set()
    os.rename(path, mounted / "y")
    path = mounted / "y"
    if kind != "folder":
        assert changed(path, lambda: os.link(path, mounted / "z")) == {"ctime"}
        assert changed(path, lambda: os.unlink(mounted / "z")) == {"ctime"}
        os.link(path, mounted / "z")
        (mounted / "w").touch()
        assert changed(path, lambda: os.rename(mounted / "w", mounted / "z")) == {"ctime"}
    assert changed(path, lambda: os.utime(path)) == {"mtime", "ctime"}


def test_of_content(mounted):
    path = mounted / "x"
    path.write_text("content")
    both = {"mtime", "ctime"}

    def write(text="more"):
        with path.open("a") as file:
            file.write(text)

    assert changed(path, write) == both
    assert changed(path, lambda: os.truncate(path, 3)) == both
    assert changed(path, lambda: os.truncate(path, 100)) == both
    assert changed(path, lambda: path.open("w").close()) == both
    assert changed(path, path.read_bytes) == set()
    assert changed(path, lambda: write("")) == set()
    with path.open("r+b") as file:
        assert changed(path, lambda: os.posix_fallocate(file.fileno(), 0, 5000)) == both


def test_of_a_directory(mounted):
    folder = mounted / "folder"
    folder.mkdir()
    both = {"mtime", "ctime"}
    for make_one, remove in (
        (lambda: (folder / "a").touch(), lambda: os.unlink(folder / "a")),
        (lambda: (folder / "a").mkdir(), lambda: os.rmdir(folder / "a")),
        (lambda: (folder / "a").symlink_to("x"), lambda: os.unlink(folder / "a")),
        (lambda: os.mkfifo(folder / "a"), lambda: os.unlink(folder / "a")),
    ):
        assert changed(folder, make_one) == both
        assert changed(folder, remove) == both
    (folder / "a").touch()
    assert changed(folder, lambda: (folder / "a").write_text("x")) == set()
    assert changed(folder, lambda: os.rename(folder / "a", mounted / "a")) == both
    assert changed(folder, lambda: os.rename(mounted / "a", folder / "a")) == both
    assert changed(folder, lambda: os.link(folder / "a", folder / "b")) == both


def test_what_fails_changes_nothing(mounted):
    (mounted / "folder/inside").mkdir(parents=True)
    (mounted / "file").touch()

    def fail(call, *arguments):
        with pytest.raises(OSError):
            call(*arguments)

    for path in (mounted, mounted / "folder", mounted / "file"):
        assert changed(path, lambda: fail(os.mkdir, mounted / "folder")) == set()
        assert changed(path, lambda: fail(os.rmdir, mounted / "folder")) == set()
        assert changed(path, lambda: fail(os.rename, mounted / "file", mounted / "folder")) == set()
        assert changed(path, lambda: fail(os.link, mounted / "file", mounted / "folder")) == set()


def test_the_same_after_a_remount(volume, mounted):
    """What programs such as make, rsync and git compare."""
    for number in range(50):
        (mounted / f"{number}").write_bytes(b"x" * number * 1000)
        if number % 3 == 0:
            with (mounted / f"{number}").open("ab") as file:
                file.write(b"more")
    before = [os.stat(mounted / f"{number}").st_mtime_ns for number in range(50)]
    volume.remount()
    assert [os.stat(mounted / f"{number}").st_mtime_ns for number in range(50)] == before
