"""Volumes that are really mounted: what tests of them share. Fixtures are in mounted_volume.py."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PENSTOCK = os.environ.get("PENSTOCK_BIN", str(ROOT / "build/release/src/cli/penstock"))
needs_fuse = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="mounts a file system"
)


def is_mounted(folder):
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as table:
        return any(line.split(" ")[1] == str(folder) for line in table)


class Volume:
    def __init__(self, home, folder, name="train"):
        self.home = home
        self.folder = folder
        self.name = name
        self.folder.mkdir()

    @property
    def host(self):
        return self.home / "volumes" / self.name

    def run(self, *arguments, check=True, timeout=120, program=PENSTOCK):
        done = subprocess.run(
            [program, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env={**os.environ, "PENSTOCK_HOME": str(self.home)},
        )
        if check:
            assert done.returncode == 0, (arguments, done.stdout, done.stderr, self.log())
        return done

    def create(self, *options):
        self.run("volume", "create", self.name, *options)
        return self

    def mount(self, *options):
        done = self.run("mount", self.name, self.folder, "--json", *options)
        return json.loads(done.stdout)

    def umount(self, *options, check=True):
        return self.run("umount", self.folder, *options, check=check)

    def remount(self, *options):
        self.umount()
        return self.mount(*options)

    def status(self):
        return json.loads(os.getxattr(self.folder, "system.penstock.status"))

    def kill(self):
        """As if the process had crashed: its mount stays, and answers nothing."""
        pid = self.status()["pid"]
        os.kill(pid, signal.SIGKILL)
        while is_alive(pid):
            time.sleep(0.01)

    def log(self):
        path = self.host / "mount.log"
        return path.read_text(errors="replace")[-20_000:] if path.exists() else ""

    def close(self):
        """Whatever a test left: nothing stays mounted."""
        while is_mounted(self.folder):
            with contextlib.suppress(OSError, ValueError, KeyError):
                pid = self.status()["pid"]
                os.kill(pid, signal.SIGTERM)
                for _ in range(200):
                    if not is_alive(pid):
                        break
                    time.sleep(0.05)
            if is_mounted(self.folder):
                subprocess.run(["umount", "-l", self.folder], check=True)


def is_alive(pid):
    """Whether any of its threads is: the first is often gone before those that hold files."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return False
    return any(is_thread_alive(pid, thread) for thread in threads)


def is_thread_alive(pid, thread):
    try:
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
