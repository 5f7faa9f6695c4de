"""Checkpoints in volumes, by pen://."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import penstock
import pytest
from checkpoint_states import ENVIRONMENT

pytest_plugins = ["pen_volumes"]


def state_of(step):
    random = np.random.default_rng(step)
    return {"step": step, "x": random.integers(0, 256, 20_000_000, dtype=np.uint8)}


@pytest.fixture
def place(volumes):
    return volumes.create("checkpoints") + "/run1"


def test_a_volume_stands_in_for_a_lost_disk(place, tmp_path):
    with penstock.Checkpointer(tmp_path / "a", replicate=place, keep_last=2) as ckpt:
        for step in (1, 2, 3):
            ckpt.save(step, state_of(step)).replicated(timeout=120)
        assert ckpt.load(step=3)["step"] == 3
    shutil.rmtree(tmp_path / "a")
    with penstock.Checkpointer(tmp_path / "a", replicate=place) as ckpt:
        assert ckpt.steps() == [2, 3]
        back = ckpt.load()
    assert back["step"] == 3 and np.array_equal(back["x"], state_of(3)["x"])
    one = penstock.load(f"{place}/step-0000000002")
    assert one["step"] == 2 and np.array_equal(one["x"], state_of(2)["x"])


def test_a_tier_keeps_what_it_is_told(place, tmp_path):
    tier = penstock.Tier(place, keep_last=1, keep_every=2)
    with penstock.Checkpointer(tmp_path / "a", replicate=[tier], keep_last=1) as ckpt:
        for step in range(1, 6):
            ckpt.save(step, state_of(step)).replicated(timeout=120)
    shutil.rmtree(tmp_path / "a")
    assert penstock.Checkpointer(tmp_path / "a", replicate=tier).steps() == [2, 4, 5]


def test_commands(volumes, place, tmp_path):
    with penstock.Checkpointer(tmp_path / "a", replicate=place) as ckpt:
        for step in (1, 2, 3):
            ckpt.save(step, state_of(step)).replicated(timeout=120)

    def run(verb, *words, code=0):
        return volumes.run("checkpoint", verb, *words, code=code)

    told = run("list", place)
    assert [line.split()[0] for line in told.splitlines()[1:]] == ["3", "2", "1"]
    assert "complete" in told and "also in" in run("list", tmp_path / "a", "--also", place)
    assert "19.1 MiB" in run("show", f"{place}/step-0000000002")
    assert "1 of" in run("show", place, "--step", 1, "--diff", 2)
    assert run("verify", place).count("verified") == 3
    run("copy", place, tmp_path / "b", "--step", 2)
    assert np.array_equal(penstock.Checkpointer(tmp_path / "b").load()["x"], state_of(2)["x"])
    run("copy", tmp_path / "a", "pen://checkpoints/run2", "--all")
    assert run("list", "pen://checkpoints/run2").count("complete") == 3
    assert "one checkpoint" in run("prune", f"{place}/step-0000000001", "--keep-last", 1, code=2)
    assert "would remove 2" in run("prune", place, "--keep-last", 1, "--dry-run")
    assert "removed 2 checkpoints: steps 1, 2" in run("prune", place, "--keep-last", 1)
    assert run("list", place).count("complete") == 1
    assert "no checkpoint is there" in run("list", "pen://checkpoints/none", code=1)


def test_a_copy_that_is_killed_goes_on(volumes, place, tmp_path):
    """No manifest without all of its data; the next run completes it."""
    script = """
        import sys, penstock, numpy as np
        random = np.random.default_rng(1)
        state = {"step": 1, "x": random.integers(0, 256, 20_000_000, dtype=np.uint8)}
        ckpt = penstock.Checkpointer(sys.argv[1], replicate=sys.argv[2],
                                     replicate_bandwidth=2_000_000)
        ckpt.save(1, state).durable()
        print("durable", flush=True)
        ckpt.close()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "a"), place]
    env = {**ENVIRONMENT, "PENSTOCK_HOME": os.environ["PENSTOCK_HOME"]}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "durable\n"
        process.send_signal(signal.SIGKILL)
    assert "no checkpoint is there" in volumes.run("checkpoint", "list", place, code=1)
    with penstock.Checkpointer(tmp_path / "a", replicate=place) as ckpt:
        ckpt.save(2, {"step": 2}).replicated(timeout=120)
        far = penstock.Checkpointer(tmp_path / "b", replicate=place)
        assert np.array_equal(far.load(step=1)["x"], state_of(1)["x"])


def test_a_volume_that_is_not_there_is_told(volumes, tmp_path):
    with pytest.raises(penstock.NotFoundError, match="there is no volume 'nobody'"):
        ckpt = penstock.Checkpointer(tmp_path / "a", replicate="pen://nobody/run")
        ckpt.save(1, {"a": 1})
