"""Checkpoints replicated to a real S3, by tests/s3/run."""

import shutil
import signal
import subprocess
import sys
import textwrap
import uuid

import numpy as np
import penstock
import pytest
from checkpoint_states import ENVIRONMENT

pytest_plugins = ["s3_servers"]


@pytest.fixture
def bucket(s3):
    name = f"ckpt-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    yield name
    for one in s3.list_objects_v2(Bucket=name).get("Contents", []):
        s3.delete_object(Bucket=name, Key=one["Key"])


def keys(s3, bucket):
    return [one["Key"] for one in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


def state_of(step):
    random = np.random.default_rng(step)
    return {"step": step, "x": random.integers(0, 256, 20_000_000, dtype=np.uint8)}


def test_s3_stands_in_for_a_lost_disk(s3, bucket, tmp_path):
    place = f"s3://{bucket}/run"
    with penstock.Checkpointer(tmp_path / "a", replicate=place, keep_last=2) as ckpt:
        for step in (1, 2, 3):
            ckpt.save(step, state_of(step)).replicated(timeout=120)
    names = keys(s3, bucket)
    assert {name.split("/")[1] for name in names} == {"step-0000000002", "step-0000000003"}
    shutil.rmtree(tmp_path / "a")
    ckpt = penstock.Checkpointer(tmp_path / "a", replicate=place)
    assert ckpt.steps() == [2, 3]
    back = ckpt.load()
    assert back["step"] == 3 and np.array_equal(back["x"], state_of(3)["x"])


def test_s3_a_copy_that_is_killed_goes_on(s3, bucket, tmp_path):
    """No manifest without all of its data; the next run completes it."""
    script = """
        import sys, penstock, numpy as np
        random = np.random.default_rng(1)
        state = {"step": 1, "x": random.integers(0, 256, 20_000_000, dtype=np.uint8)}
        ckpt = penstock.Checkpointer(sys.argv[1], replicate=sys.argv[2],
                                     replicate_bandwidth=20_000_000)
        ckpt.save(1, state).durable()
        print("durable", flush=True)
        ckpt.close()
    """
    place = f"s3://{bucket}/run"
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "a"), place]
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "durable\n"
        process.send_signal(signal.SIGKILL)
    assert not any(name.endswith("manifest.json") for name in keys(s3, bucket))
    with penstock.Checkpointer(tmp_path / "a", replicate=place) as ckpt:
        ckpt.save(2, {"step": 2}).replicated(timeout=120)
    assert np.array_equal(
        penstock.Checkpointer(tmp_path / "b", replicate=place).load(step=1)["x"], state_of(1)["x"]
    )


def test_s3_that_is_not_there_is_told_and_saves_go_on(s3, tmp_path):
    place = f"s3://nobody-{uuid.uuid4().hex[:12]}/run"
    ckpt = penstock.Checkpointer(tmp_path / "a", replicate=place)
    handle = ckpt.save(1, {"a": 1})
    handle.durable(timeout=60)
    with pytest.raises(penstock.PenstockError, match="nobody-"):
        handle.replicated(timeout=60)
    ckpt.close()
    assert penstock.Checkpointer(tmp_path / "a").load() == {"a": 1}
