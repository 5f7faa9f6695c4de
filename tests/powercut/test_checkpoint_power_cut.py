"""The power goes while a run saves checkpoint after checkpoint: the last durable one loads."""

import os
import pathlib
import random
import subprocess
import sys
import textwrap
import time

import pytest

pytest_plugins = ["loop_disk"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "build/release/python")}

COMMON = """
    import sys, numpy as np, penstock
    def state_of(step):
        random = np.random.default_rng(step)
        sizes = [0, 1, 1000, 300_000, int(random.integers(1, 2_000_000))]
        return {"step": step, "parts": [random.integers(0, 256, n, dtype=np.uint8) for n in sizes]}
    ckpt = penstock.Checkpointer(sys.argv[1], keep_last=2)
"""
SAVE = """
    step = max(ckpt.steps(), default=0)
    while True:
        step += 1
        ckpt.save(step, state_of(step)).durable()
        print(step, flush=True)
"""
CHECK = """
    state = ckpt.load()
    expected = state_of(state["step"])
    assert all(map(np.array_equal, state["parts"], expected["parts"])), "other bytes"
    print(state["step"])
"""


def start(script, directory):
    text = textwrap.dedent(COMMON) + textwrap.dedent(script)
    command = [sys.executable, "-c", text, str(directory)]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def save_until_cut(disk, seed):
    """The last step that was reported durable before the power went."""
    run = start(SAVE, disk.place / "run")
    os.set_blocking(run.stdout.fileno(), False)
    told = run.stdout.read() or b""
    # Python and numpy are there once the first is saved.
    begin = time.monotonic()
    while b"\n" not in told and time.monotonic() < begin + 60:
        time.sleep(0.002)
        told += run.stdout.read() or b""
    time.sleep(random.Random(seed).uniform(0, 0.25))
    told += run.stdout.read() or b""
    disk.cut_power()
    os.set_blocking(run.stdout.fileno(), True)
    _, complaint = run.communicate(timeout=60)
    assert run.returncode != 0, "it met no error"
    assert b"\n" in told, complaint
    return int(told[: told.rindex(b"\n")].split()[-1])


def test_the_last_durable_checkpoint_survives(disk, request):
    rounds = 4 if request.config.getoption("-m") == "not long" else 100
    (disk.place / "run").mkdir()
    os.sync()
    last = 0
    for seed in range(rounds):
        durable = save_until_cut(disk, seed)
        disk.unmount()
        disk.mount()
        with start(CHECK, disk.place / "run") as check:
            out, complaint = check.communicate(timeout=60)
        assert check.returncode == 0, f"seed {seed}: {complaint}"
        assert int(out) >= durable, f"seed {seed}"
        # What was left of the others is damaged in no way that is not told.
        assert b"trying" not in complaint, f"seed {seed}: {complaint}"
        assert int(out) > last
        last = int(out)


@pytest.fixture(autouse=True)
def needs_the_package():
    if not (ROOT / "build/release/python/penstock").is_dir():
        pytest.skip("needs ./run build python")
