"""The power goes under a mounted volume: what was synced is there, in a state that it went through.

Changes reach a volume in their order, and fsync of anything makes all before it durable. So what
is found is the state after one of the operations, none before the last fsync; only the files of the
one operation behind it may be between what they were and what they were to be.
"""

import contextlib
import copy
import os
import pathlib
import random
import signal
import subprocess
import threading
import time

from mount_tools import Volume, is_alive, is_mounted, needs_fuse

pytest_plugins = ["loop_disk"]
pytestmark = needs_fuse

FOLDERS = ["", "d0/", "d1/"]


class Writer(threading.Thread):
    """Changes a folder until that fails. `states[n]` is what it held after n operations."""

    def __init__(self, folder, known, seed):
        super().__init__()
        self.folder = folder
        self.dice = random.Random(seed)
        self.states = [dict(known)]
        self.touched = []  # By each operation: the names, also by the one that failed.
        self.synced = 0  # How many operations an fsync promised.

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                self.step()

    def step(self):
        known = dict(self.states[-1])
        name = f"{self.dice.choice(FOLDERS)}file-{self.dice.randrange(8)}"
        acts = [self.append, self.append, self.overwrite, self.overwrite, self.replace]
        acts += [self.truncate, self.unlink, self.rename]
        act = self.dice.choice(acts) if name in known else self.replace
        act(known, name)

    def done(self, known):
        self.states.append(known)

    def finish(self, fd, known):
        """Closed, all of it is at the volume; synced, also on the drive."""
        sync = self.dice.random() < 0.4
        try:
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        self.done(known)
        if sync:
            self.synced = len(self.states) - 1
        elif self.dice.random() < 0.1:
            self.sync_folder()

    def sync_folder(self):
        count = len(self.states) - 1
        fd = os.open(self.folder / self.dice.choice(FOLDERS), os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        self.synced = count

    def some_bytes(self):
        return self.dice.randbytes(self.dice.randrange(1, self.dice.choice([100, 5_000, 60_000])))

    def replace(self, known, name):
        self.touched.append({name})
        data = self.some_bytes()
        fd = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        write_all(fd, data, 0)
        known[name] = data
        self.finish(fd, known)

    def append(self, known, name):
        self.touched.append({name})
        data = self.some_bytes()
        fd = os.open(self.folder / name, os.O_WRONLY)
        write_all(fd, data, len(known[name]))
        known[name] += data
        self.finish(fd, known)

    def overwrite(self, known, name):
        self.touched.append({name})
        old = known[name]
        at = self.dice.randrange(len(old) + 1)
        data = self.some_bytes()
        fd = os.open(self.folder / name, os.O_WRONLY)
        write_all(fd, data, at)
        known[name] = old[:at] + data + old[at + len(data) :]
        self.finish(fd, known)

    def truncate(self, known, name):
        self.touched.append({name})
        size = self.dice.randrange(len(known[name]) + 5_000)
        os.truncate(self.folder / name, size)
        known[name] = known[name][:size].ljust(size, b"\0")
        self.done(known)

    def unlink(self, known, name):
        self.touched.append({name})
        os.unlink(self.folder / name)
        del known[name]
        self.done(known)

    def rename(self, known, name):
        other = f"{self.dice.choice(FOLDERS)}file-{self.dice.randrange(8)}"
        self.touched.append({name, other})
        os.rename(self.folder / name, self.folder / other)
        if other != name:
            known[other] = known.pop(name)
        self.done(known)


def write_all(fd, data, at):
    try:
        while data:
            count = os.pwrite(fd, data, at)
            data, at = data[count:], at + count
    except OSError:
        with contextlib.suppress(OSError):
            os.close(fd)
        raise


def is_between(found, old, new):
    """Whether an operation that was cut short can have left this of a file (None: not there)."""
    if found in (old, new):
        return True
    if found is None:
        return False
    old, new = old or b"", new or b""
    size = max(len(old), len(new))
    if len(found) > size:
        return False
    old, new = old.ljust(size, b"\0"), new.ljust(size, b"\0")
    return all(f in (a, b, 0) for f, a, b in zip(found, old, new, strict=False))


def matches(found, writer, count):
    """Whether this is the state after `count` operations, with what the next one had begun."""
    state = writer.states[count]
    after = writer.states[count + 1] if count + 1 < len(writer.states) else None
    touched = writer.touched[count] if count < len(writer.touched) else set()
    for name in found.keys() | state.keys():
        if found.get(name) == state.get(name):
            continue
        if name not in touched:
            return False
        # The last one failed: nothing is known of what it was to write.
        if after is not None and not is_between(found.get(name), state.get(name), after.get(name)):
            return False
    return True


def content_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def end_mount(volume, pid):
    """The machine is off: what served the mount is gone, and so is the mount."""
    os.kill(pid, signal.SIGKILL)
    while is_alive(pid):
        time.sleep(0.01)
    while is_mounted(volume.folder):
        subprocess.run(["umount", "-l", volume.folder], check=True)


def old_boot(blocks):
    """The machine did not really boot: give what lies there the name of another boot."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for pending in blocks.glob(f"*{boot}*"):
        pending.rename(pending.with_name(pending.name.replace(boot, "0" * len(boot))))


def work_until_cut(disk, volume, known, seed, log):
    """What the writer did, and how many operations were promised before the power went."""
    # Often to the store, so that the cut may meet that too.
    volume.mount("--writeback-max-age", "100ms", "--log-file", log)
    pid = volume.status()["pid"]
    assert content_of(volume.folder) == known
    writer = Writer(volume.folder, known, seed)
    writer.start()
    time.sleep(random.Random(seed).uniform(0.1, 1.2))
    # What is promised while the power goes is not held against it: nobody hears of it.
    promised = writer.synced
    disk.cut_power()
    writer.join(30)
    end_mount(volume, pid)
    writer.join(30)
    assert not writer.is_alive(), "the writer hangs"
    disk.unmount()
    disk.mount()
    old_boot(volume.host / "blocks")
    return writer, promised


def test_what_was_synced_survives_in_a_state_that_was(disk, tmp_path, request):
    rounds = 4 if request.config.getoption("-m") == "not long" else 60
    log = tmp_path / "mount.log"
    volume = Volume(disk.place / "home", tmp_path / "volume").create()
    os.sync()
    known, promises = {}, 0
    try:
        volume.mount("--log-file", log)
        for folder in FOLDERS[1:]:
            (volume.folder / folder).mkdir()
        volume.umount()
        for seed in range(rounds):
            writer, promised = work_until_cut(disk, volume, known, seed, log)
            promises += promised > 0
            checked = volume.run("volume", "fsck", volume.name, check=False)
            assert checked.returncode == 0, f"seed {seed}: {checked.stdout}{checked.stderr}"
            volume.mount("--log-file", log)
            found = content_of(volume.folder)
            volume.umount("--no-drain")
            counts = range(promised, len(writer.states))
            assert any(matches(found, writer, count) for count in counts), (
                f"seed {seed}: {promised} of {len(writer.states) - 1} operations were promised, "
                f"and the names are {sorted(found)}"
            )
            known = copy.deepcopy(found)
    finally:
        volume.close()
    assert promises > 0, "no round synced anything: nothing was tested"
