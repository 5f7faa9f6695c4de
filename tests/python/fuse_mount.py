"""usage: fuse_mount.py FOLDER MOUNTPOINT

Shows FOLDER, read-only, as a FUSE file system: what the tests take for a network mount. As root,
without libfuse: speaks the kernel's protocol (linux/fuse.h). Ends when it is unmounted.
"""

import ctypes
import errno
import os
import stat
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 25, 26, 27, 28, 29, 36, 42
NO_ANSWER = (FORGET, INTERRUPT, BATCH_FORGET)
LONG = 3600  # Seconds for which the kernel may believe what it was told.


class Served:
    def __init__(self, folder):
        self.paths = {1: folder}
        self.nodes = {folder: 1}

    def node(self, path):
        number = self.nodes.setdefault(path, len(self.nodes) + 1)
        self.paths[number] = path
        return number

    def attributes(self, path):
        info = os.stat(path)
        times = (info.st_atime_ns, info.st_mtime_ns, info.st_ctime_ns)
        return struct.pack(
            "<6Q10I",
            info.st_ino,
            info.st_size,
            info.st_blocks,
            *(time // 10**9 for time in times),
            *(time % 10**9 for time in times),
            info.st_mode,
            1,
            info.st_uid,
            info.st_gid,
            0,
            4096,
            0,
        )

    def answer(self, opcode, node, body):
        path = self.paths[node] if node else ""
        if opcode == INIT:
            flags = (12, 12, 1 << 17, 1, 32, 0, 0)
            return struct.pack("<4I2H2I2HI7I", 7, 31, 1 << 17, 0, *flags, *[0] * 7)
        if opcode == LOOKUP:
            found = os.path.join(path, os.fsdecode(body.rstrip(b"\0")))
            attributes = self.attributes(found)
            return struct.pack("<4Q2I", self.node(found), 0, LONG, LONG, 0, 0) + attributes
        if opcode == GETATTR:
            return struct.pack("<Q2I", LONG, 0, 0) + self.attributes(path)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<Q2I", 0, 0, 0)
        if opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            with open(path, "rb") as file:
                return os.pread(file.fileno(), size, offset)
        if opcode == READDIR:
            return self.entries(path, *struct.unpack_from("<QQI", body)[1:])
        if opcode == STATFS:
            return struct.pack("<5Q10I", 1 << 20, 0, 0, 1 << 10, 0, 4096, 255, 4096, 0, *[0] * 6)
        if opcode in (RELEASE, RELEASEDIR, FLUSH):
            return b""
        raise OSError(errno.ENOSYS, "")

    def entries(self, path, offset, size):
        out = b""
        for number, name in enumerate(sorted(os.listdir(path)), 1):
            raw = os.fsencode(name)
            mode = os.stat(os.path.join(path, name)).st_mode
            kind = 4 if stat.S_ISDIR(mode) else 8
            entry = struct.pack("<QQ2I", number + 1, number, len(raw), kind) + raw
            entry += bytes(-len(entry) % 8)
            if number <= offset:
                continue
            if len(out) + len(entry) > size:
                break
            out += entry
        return out


def main(folder, mountpoint):
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    names = [os.fsencode(text) for text in ("test", mountpoint, "fuse.test", options)]
    if libc.mount(*names[:3], 1, names[3]) != 0:  # MS_RDONLY
        sys.exit(f"cannot mount: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    served = Served(folder)
    while True:
        try:
            request = os.read(device, 1 << 20)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue
            return  # ENODEV: unmounted.
        _, opcode, unique, node = struct.unpack_from("<2I2Q", request)
        if opcode in NO_ANSWER:
            continue
        try:
            failed, body = 0, served.answer(opcode, node, request[40:])
        except OSError as error:
            failed, body = -(error.errno or errno.EIO), b""
        os.write(device, struct.pack("<IiQ", 16 + len(body), failed, unique) + body)


if __name__ == "__main__":
    main(*sys.argv[1:])
