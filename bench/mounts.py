"""Places that files are put in: ext4 itself, bindfs over it, volumes of ours, s3fs and rclone.

Whoever serves a mount runs on the first core and whoever uses it on the second, for all alike.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import time

import measure

PENSTOCK = measure.ROOT / "build/release/src/cli/penstock"
DRIVER = measure.ROOT / "build/release/bench/file_driver"
SERVER_CORE = "0"
CLIENT_CORE = "1"


def call(*words, core=None, env=None, check=True):
    """What it printed."""
    pinned = ["taskset", "-c", core] if core else []
    command = [*pinned, *(str(word) for word in words)]
    done = subprocess.run(
        command, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}{done.stdout.strip()}")
    return done.stdout


def drive(work, path, *words):
    """{"seconds", "operations", "bytes"} of what a program does there."""
    return json.loads(call(DRIVER, work, path, *words, core=CLIENT_CORE))


def is_mounted(folder):
    mounts = pathlib.Path("/proc/self/mounts").read_text()
    return any(line.split(" ")[1] == str(folder) for line in mounts.splitlines())


def wait_until(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def peak_memory(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    raise RuntimeError("no VmHWM")


def unmount(folder):
    """Nobody uses it: fusermount waits for what is written."""
    if is_mounted(folder):
        call("umount", folder)
        wait_until(lambda: not is_mounted(folder), f"umount {folder}")


class Plain:
    """A folder of the drive."""

    label = "ext4"

    def __init__(self, base):
        self.folder = base / "plain"
        self.folder.mkdir()

    def close(self):
        pass


class Bindfs:
    """What FUSE costs when all else is the kernel's."""

    label = "bindfs"

    def __init__(self, base):
        self.below = base / "below"
        self.folder = base / "bindfs"
        for folder in (self.below, self.folder):
            folder.mkdir()
        call("bindfs", self.below, self.folder, core=SERVER_CORE)
        wait_until(lambda: is_mounted(self.folder), "bindfs")

    def close(self):
        unmount(self.folder)


class Volume:
    """Made and mounted as people do it: with its defaults, but for `create` and `options`."""

    label = "penstock"

    def __init__(self, base, name="train", create=(), options=(), env=None):
        self.home = base / "home"
        self.name = name
        self.folder = base / f"volume-{name}"
        self.folder.mkdir()
        self.options = options
        self.env = {**(env or {}), "PENSTOCK_HOME": str(self.home)}
        self.peak_bytes = 0
        self.run("volume", "create", name, *create)
        self.mount()

    def run(self, *words, core=None):
        return call(PENSTOCK, *words, core=core, env=self.env)

    def mount(self, *options):
        words = ["mount", self.name, self.folder, "--json", *self.options, *options]
        self.pid = json.loads(self.run(*words, core=SERVER_CORE))["pid"]

    def status(self):
        return json.loads(os.getxattr(self.folder, "system.penstock.status"))

    def umount(self, *options):
        self.peak_bytes = max(self.peak_bytes, peak_memory(self.pid))
        pid = self.pid
        self.run("umount", self.folder, *options)
        wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "penstock umount")

    def remount(self, *options):
        """All is in the store then, and nothing in memory."""
        self.umount()
        self.mount(*options)

    def close(self):
        if is_mounted(self.folder):
            self.umount("--no-drain")


class Mounted:
    """A program in the foreground that mounts a bucket."""

    def __init__(self, base, command, env):
        self.folder = base / self.label.replace(" ", "-")
        self.folder.mkdir(exist_ok=True)
        words = ["taskset", "-c", SERVER_CORE, *(str(word) for word in command)]
        self.log = open(base / f"{self.label}.log", "ab")
        self.process = subprocess.Popen(
            words, env=self.plain_environment() | env, stdout=self.log, stderr=self.log
        )
        try:
            wait_until(self.is_up, self.label)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def plain_environment():
        """Without what rclone takes for a reason not to start."""
        return {key: value for key, value in os.environ.items() if key != "AWS_CA_BUNDLE"}

    def is_up(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.label} ended: see {self.log.name}")
        return is_mounted(self.folder)

    def close(self):
        with contextlib.suppress(RuntimeError):
            unmount(self.folder)
        self.process.terminate()
        self.process.wait()
        self.log.close()


class S3fs(Mounted):
    label = "s3fs"

    def __init__(self, base, bucket, env):
        passwd = base / "s3fs.passwd"
        passwd.write_text(f"{env['AWS_ACCESS_KEY_ID']}:{env['AWS_SECRET_ACCESS_KEY']}\n")
        passwd.chmod(0o600)
        options = f"passwd_file={passwd},url={env['AWS_ENDPOINT_URL']},use_path_request_style"
        options += ",parallel_count=16,multireq_max=64,max_stat_cache_size=200000"
        command = ["s3fs", bucket, base / "s3fs", "-f", "-o", options]
        super().__init__(base, command, {})


class Rclone(Mounted):
    """It acknowledges what is in its cache on this machine."""

    label = "rclone mount"
    cache_mode = "writes"

    def __init__(self, base, bucket, env):
        settings = {
            "RCLONE_CONFIG": "/dev/null",
            "RCLONE_CONFIG_B_TYPE": "s3",
            "RCLONE_CONFIG_B_PROVIDER": "Ceph",
            "RCLONE_CONFIG_B_ENDPOINT": env["AWS_ENDPOINT_URL"],
            "RCLONE_CONFIG_B_ACCESS_KEY_ID": env["AWS_ACCESS_KEY_ID"],
            "RCLONE_CONFIG_B_SECRET_ACCESS_KEY": env["AWS_SECRET_ACCESS_KEY"],
        }
        folder = base / self.label.replace(" ", "-")
        command = ["rclone", "mount", f"B:{bucket}", folder, "--s3-no-check-bucket"]
        command += ["--vfs-cache-mode", self.cache_mode, "--cache-dir", base / "rclone-cache"]
        command += ["--transfers", "32", "--dir-cache-time", "1h"]
        super().__init__(base, command, settings)


class PlainRclone(Rclone):
    """It acknowledges what is in S3."""

    label = "rclone mount, no cache"
    cache_mode = "off"
