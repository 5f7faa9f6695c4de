"""What programs get when something below the mount fails, or the process that serves it."""

import contextlib
import errno
import os
import pathlib
import random
import signal
import threading
import time

import pytest
from mount_tools import is_alive, needs_fuse

pytest_plugins = ["mounted_volume"]
pytestmark = needs_fuse


def damage(folder):
    """A bit in the middle of each object."""
    count = 0
    for path in pathlib.Path(folder).rglob("*"):
        if path.is_file() and path.stat().st_size > 500_000:
            with path.open("r+b") as file:
                file.seek(path.stat().st_size // 2)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 1]))
            count += 1
    return count


def test_a_damaged_object_is_an_error_and_named_in_the_log(volume):
    volume.mount()
    (volume.folder / "file").write_bytes(os.urandom(2_000_000))
    (volume.folder / "small").write_bytes(b"fine")
    volume.umount()
    assert damage(volume.host / "blocks") > 0
    volume.mount()
    with pytest.raises(OSError) as failed:
        (volume.folder / "file").read_bytes()
    assert failed.value.errno == errno.EIO
    assert "the program gets EIO" in volume.log() and "object '" in volume.log()
    assert (volume.folder / "small").read_bytes() == b"fine"
    assert os.stat(volume.folder / "file").st_size == 2_000_000


def test_killed_at_any_moment_nothing_acknowledged_is_lost(volume):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    maker = random.Random(seed)
    known = {}
    for _ in range(4):
        volume.mount()
        assert {path.name: path.read_bytes() for path in volume.folder.iterdir()} == known
        pid = volume.status()["pid"]
        delay = maker.random() * 0.8
        killer = threading.Timer(delay, os.kill, (pid, signal.SIGKILL))
        killer.start()
        unsure = work_until_it_fails(volume.folder, maker, known)
        killer.join()
        while is_alive(pid):
            time.sleep(0.01)
        volume.run("umount", volume.folder)
        volume.mount()
        found = {path.name: path.read_bytes() for path in volume.folder.iterdir()}
        # The one operation that was not answered has happened, or not.
        for name in unsure:
            if found.get(name) is None:
                known.pop(name, None)
            else:
                known[name] = found[name]
        assert found.keys() == known.keys()
        assert found == known
        volume.umount()


def work_until_it_fails(folder, maker, known):
    """Changes `known` with the folder; the names that the last operation was about."""
    while True:
        name = f"file-{maker.randrange(20)}"
        try:
            kind = maker.randrange(10)
            if kind < 6 or name not in known:
                data = maker.randbytes(maker.randrange(60_000))
                (folder / name).write_bytes(data)
                known[name] = data
            elif kind < 8:
                (folder / name).unlink()
                del known[name]
            else:
                other = f"file-{maker.randrange(20)}"
                if other == name:
                    continue
                os.rename(folder / name, folder / other)
                known[other] = known.pop(name)
        except OSError:
            return {name, other} if kind >= 8 and name in known else {name}


def test_what_was_synced_is_in_the_journal_before_close(volume):
    volume.mount()
    fd = os.open(volume.folder / "file", os.O_CREAT | os.O_WRONLY)
    os.write(fd, b"synced")
    os.fsync(fd)
    volume.kill()
    with contextlib.suppress(OSError):
        os.close(fd)
    volume.umount()
    volume.mount()
    assert (volume.folder / "file").read_bytes() == b"synced"
