"""Every call that takes a name, for those who try all of them on many names."""

import os
import stat

from posix_pair import KINDS, chmod_no_follow, facts, make, opened, renameat2

NONBLOCK = os.O_NONBLOCK
CALLS = {
    "lstat": lambda path: facts(path),
    "stat": lambda path: facts(path, follow=True),
    "access": lambda path: os.access(path, os.R_OK | os.W_OK),
    "readlink": lambda path: os.path.basename(os.readlink(path)),
    "listdir": lambda path: sorted(os.listdir(path)),
    "chmod": lambda path: os.chmod(path, 0o7711),
    "lchmod": lambda path: chmod_no_follow(path, 0o711),
    "chown": lambda path: os.chown(path, 12, 34),
    "lchown": lambda path: os.lchown(path, 12, 34),
    "utime": lambda path: os.utime(path, ns=(1, 2)),
    "lutime": lambda path: os.utime(path, ns=(1, 2), follow_symlinks=False),
    "truncate": lambda path: os.truncate(path, 3),
    "truncate negative": lambda path: os.truncate(path, -1),
    "link from": lambda path: os.link(path, "new", follow_symlinks=False),
    "link from followed": lambda path: os.link(path, "new", follow_symlinks=True),
    "link to": lambda path: os.link("file", path),
    "symlink at": lambda path: os.symlink("file", path),
    "symlink to": lambda path: os.symlink(path, "new"),
    "mkdir": lambda path: os.mkdir(path, 0o751),
    "mkfifo": lambda path: os.mkfifo(path, 0o640),
    "mknod file": lambda path: os.mknod(path, stat.S_IFREG | 0o640),
    "mknod char": lambda path: os.mknod(path, stat.S_IFCHR | 0o640, os.makedev(1, 5)),
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "rename from": lambda path: os.rename(path, "new"),
    "rename over a file": lambda path: os.rename(path, "second"),
    "rename over a folder": lambda path: os.rename(path, "folder"),
    "rename into itself": lambda path: os.rename(path, f"{path}/new"),
    "rename to": lambda path: os.rename("second", path),
    "rename a folder to": lambda path: os.rename("folder", path),
    "exchange": lambda path: renameat2("second", path, 2),
    "no replace": lambda path: renameat2("second", path, 1),
    "open": lambda path: opened(path, os.O_RDONLY | NONBLOCK),
    "open as a folder": lambda path: opened(path, os.O_RDONLY | os.O_DIRECTORY | NONBLOCK),
    "open for writing": lambda path: opened(path, os.O_WRONLY | NONBLOCK),
    "create": lambda path: opened(path, os.O_CREAT | os.O_RDWR | NONBLOCK),
    "create new": lambda path: opened(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | NONBLOCK),
    "open path": lambda path: opened(path, os.O_PATH | os.O_NOFOLLOW),
    "getxattr": lambda path: os.getxattr(path, "user.none", follow_symlinks=False),
    "setxattr": lambda path: os.setxattr(path, "user.a", b"1"),
    "lsetxattr": lambda path: os.setxattr(path, "trusted.a", b"1", follow_symlinks=False),
    "listxattr": lambda path: sorted(os.listxattr(path)),
    "statvfs": lambda path: os.statvfs(path).f_namemax,
    "chdir": lambda path: in_there(path),
}


def in_there(path):
    back = os.open(".", os.O_RDONLY)
    try:
        os.chdir(path)
        os.fchdir(back)
    finally:
        os.close(back)


def furnish():
    for kind in KINDS:
        make(kind, kind)
    make("full", "full")
    make("file", "second")
    os.symlink("folder", "to folder")
    os.symlink("full", "to full")
