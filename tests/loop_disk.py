"""Disks that can lose power: a file system on a loop image, shut down as a power cut would.

The shutdown (FS_IOC_SHUTDOWN without a log flush) drops all that has not reached the device.
A plugin of pytest: `pytest_plugins = ["loop_disk"]` in a test file brings the fixture `disk`.
"""

import contextlib
import fcntl
import os
import struct
import subprocess
import time

import pytest

FS_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)


class LoopDisk:
    def __init__(self, folder, kind):
        self.image = folder / "image"
        self.place = folder / "mnt"
        self.place.mkdir()
        with self.image.open("wb") as image:
            image.truncate(512 << 20)
        run(*MAKE[kind], self.image)
        self.device = run(
            "losetup", "--find", "--show", "--direct-io=on", self.image
        ).stdout.strip()
        self.mount()

    def mount(self):
        run("mount", self.device, self.place)

    def unmount(self):
        """Waits for what a killed process still holds: the kernel ends its rings after it."""
        until = time.monotonic() + 30
        while True:
            try:
                run("umount", self.place)
                return
            except subprocess.CalledProcessError as error:
                if "busy" not in error.stderr or time.monotonic() > until:
                    raise
            time.sleep(0.05)

    def cut_power(self):
        fd = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, FS_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.unmount()
        run("losetup", "--detach", self.device)


@pytest.fixture(params=["ext4", "xfs"])
def disk(request, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("mounting a loop image takes root")
    disk = LoopDisk(tmp_path, request.param)
    yield disk
    disk.close()
