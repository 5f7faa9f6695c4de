"""Real power cuts: a file system on a loop image is shut down under a store that writes."""

import os
import pathlib
import random
import subprocess
import time

import pytest
from loop_disk import run

pytest_plugins = ["loop_disk"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
WRITER = ROOT / "build/release/tests/powercut/store_writer"


def write_until_cut(disk, address, seed):
    """What the writer said it did, in order, and how many of these steps came before the cut.

    What it says later is not held against it: a sync that meets the shutdown may still return
    success, which no process sees when the power really goes.
    """
    writer = subprocess.Popen(
        [WRITER, "write", address, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    os.set_blocking(writer.stdout.fileno(), False)
    told = b""
    end = time.monotonic() + random.Random(seed).uniform(0.15, 0.6)
    while time.monotonic() < end:
        told += writer.stdout.read() or b""
        time.sleep(0.005)
    assert writer.poll() is None, writer.stderr.read()
    told += writer.stdout.read() or b""
    disk.cut_power()
    before = told.count(b"\n")
    os.set_blocking(writer.stdout.fileno(), True)
    rest, complaint = writer.communicate(timeout=60)
    assert writer.returncode == 1, complaint  # It met an error, and said so.
    return [line.split() for line in (told + rest).decode().splitlines()], before


def allowed_states(start, steps, before):
    """For each key: the versions it may have, None meaning absent."""
    flushes = [i for i, step in enumerate(steps[:before]) if step[0] == "flushed"]
    last_flush = max(flushes, default=-1)
    flushed = dict(start)
    for step in steps[: last_flush + 1]:
        if step[0] != "flushed":
            flushed[step[1]] = step[2] if step[0] == "put" else None
    allowed = {key: {version} for key, version in flushed.items()}
    for step in steps[last_flush + 1 :]:
        if step[0] == "flushed":
            continue
        versions = allowed.setdefault(step[1], {None})
        versions.add(step[2] if step[0] == "put" else None)
    return allowed, last_flush


def check_round(disk, address, state, seed, old_boot):
    steps, before = write_until_cut(disk, address, seed)
    disk.unmount()
    disk.mount()
    old_boot()
    allowed, last_flush = allowed_states(state, steps, before)
    seen = dict(line.split() for line in run(WRITER, "dump", address).stdout.splitlines())
    for key in seen.keys() | allowed.keys():
        assert seen.get(key) in allowed.get(
            key, {None}
        ), f"seed {seed}: {key} is {seen.get(key)}, expected one of {allowed.get(key)}"
    return seen, last_flush


@pytest.mark.parametrize("kind", ["file", "tree"])
def test_flushed_objects_survive_and_none_is_torn(disk, kind, request):
    """Several cuts in a row on one store: each starts from what the one before left."""
    address = f"{kind}:{disk.place}/store"
    (disk.place / "store").mkdir()
    run("sync", "-f", disk.place)

    def old_boot():
        """The machine did not really boot: give what lies there the name of another boot."""
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        for pending in (disk.place / "store").glob(f"*{boot}*"):
            pending.rename(pending.with_name(pending.name.replace(boot, "0" * len(boot))))

    state, flushes = {}, 0
    rounds = 5 if request.config.getoption("-m") == "not long" else 40
    for seed in range(rounds):
        state, last_flush = check_round(disk, address, state, seed, old_boot)
        flushes += last_flush >= 0
    assert flushes > 0, "no round flushed anything: nothing was tested"
