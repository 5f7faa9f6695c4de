"""Penstock behind torch.distributed.checkpoint, with real processes over gloo."""

import subprocess
import sys

import penstock
import pytest
from conftest import BUILD
from rank_processes import finish, start_ranks

torch = pytest.importorskip("torch")
dcp = pytest.importorskip("torch.distributed.checkpoint")
safetensors_torch = pytest.importorskip("safetensors.torch")

from penstock.dcp import Reader, Writer  # noqa: E402
from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402


def state_of(seed):
    generator = torch.Generator().manual_seed(seed)
    make = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    return {
        "model": {"w": make(33, 7), "b": make(5).to(torch.bfloat16), "t": make(4, 6).t()},
        "optim": [{"lr": 0.1, "name": "adam"}, {"state": make(3)}],
        "step": seed,
        "none": None,
    }


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


def test_one_process_saves_loads_and_replaces(tmp_path):
    path = tmp_path / "run" / "step-0000000007"
    for seed in (1, 7):
        dcp.save(state_of(seed), storage_writer=Writer(path), no_dist=True)
        loaded = state_of(99)
        dcp.load(loaded, storage_reader=Reader(path), no_dist=True)
        assert equal(loaded, state_of(seed))
    assert penstock.Checkpointer(tmp_path / "run").steps() == [7]
    names = safetensors_torch.load_file(path / "rank-00000-00000.safetensors")
    assert torch.equal(names["model.w"], state_of(7)["model"]["w"])
    with pytest.raises(CheckpointException, match="overwrite=False"):
        dcp.save(state_of(2), storage_writer=Writer(path, overwrite=False), no_dist=True)
    with pytest.raises(penstock.InvalidError, match="dcp"):
        penstock.Checkpointer(tmp_path / "run").load()


def test_checkpoint_id_names_the_path(tmp_path):
    dcp.save(state_of(3), checkpoint_id=tmp_path / "one", storage_writer=Writer(), no_dist=True)
    loaded = state_of(1)
    dcp.load(loaded, checkpoint_id=tmp_path / "one", storage_reader=Reader(), no_dist=True)
    assert equal(loaded, state_of(3))


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_async_save(tmp_path, kind):
    # A process of its own: DCP's daemon needs a process group, and outlives the test otherwise.
    script = f"""
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from penstock.dcp import Reader, Writer
if __name__ == "__main__":
    dist.init_process_group("gloo", init_method="file://{tmp_path}/meet", rank=0, world_size=1)
    state = {{"w": torch.arange(1000.0), "n": 5}}
    future = dcp.async_save(state, storage_writer=Writer("{tmp_path}/one"),
        async_checkpointer_type=AsyncCheckpointerType.{kind.upper()})
    future = getattr(future, "upload_completion", future)
    state["w"].zero_()
    future.result()
    loaded = {{"w": torch.zeros(1000), "n": 0}}
    dcp.load(loaded, storage_reader=Reader("{tmp_path}/one"))
    assert torch.equal(loaded["w"], torch.arange(1000.0)) and loaded["n"] == 5
    print("whole")
"""
    file = tmp_path / "script.py"
    file.write_text(script)
    run = subprocess.run(
        [sys.executable, file],
        env={"PYTHONPATH": str(BUILD / "python"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert "whole" in run.stdout, run.stdout + run.stderr


SHARDED = """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, Replicate, distribute_tensor
    from penstock.dcp import Reader, Writer
    mesh = init_device_mesh("cpu", (count,))
    full = torch.arange(7 * 12, dtype=torch.float32).reshape(7, 12)
    def made(values):
        return {
            "rows": distribute_tensor(values.clone(), mesh, [Shard(0)]),
            "columns": distribute_tensor(values.clone() + 1, mesh, [Shard(1)]),
            "same": distribute_tensor(values.clone() + 2, mesh, [Replicate()]),
            "plain": values.clone() + 3,
            "number": 42 if values.any() else 0,
        }
    path = os.path.join(directory, "step-0000000001")
"""


@pytest.mark.parametrize("count", [1, 2, 4])
def test_saved_by_three_ranks_and_loaded_by_any_number(tmp_path, count):
    save = SHARDED + "    dcp.save(made(full), storage_writer=Writer(path))\n"
    finish(start_ranks(save, tmp_path / "run", 3, distributed=tmp_path / "meet1"))
    load = (
        SHARDED
        + """
    state = made(torch.zeros(7, 12))
    dcp.load(state, storage_reader=Reader(path))
    expected = made(full)
    for name in ("rows", "columns", "same"):
        assert torch.equal(state[name].full_tensor(), expected[name].full_tensor()), name
    assert torch.equal(state["plain"], expected["plain"]) and state["number"] == 42
    """
    )
    finish(start_ranks(load, tmp_path / "run", count, distributed=tmp_path / "meet2"))
    assert penstock.Checkpointer(tmp_path / "run").steps() == [1]


def test_damage_is_found_and_named(tmp_path):
    path = tmp_path / "one"
    dcp.save(state_of(1), storage_writer=Writer(path), no_dist=True)
    file = path / "rank-00000-00000.safetensors"
    data = bytearray(file.read_bytes())
    data[5000] ^= 4
    file.write_bytes(data)
    with pytest.raises(CheckpointException, match="is damaged") as failure:
        dcp.load(state_of(2), storage_reader=Reader(path), no_dist=True)
    assert "must not be used" in str(failure.value)


class Odd:
    pass


def test_what_would_run_when_loaded_is_refused_when_saved(tmp_path):
    with pytest.raises(CheckpointException, match="odd: cannot be saved"):
        dcp.save({"odd": Odd()}, storage_writer=Writer(tmp_path / "one"), no_dist=True)
    assert not (tmp_path / "one").exists()


def test_a_failed_save_leaves_the_old_one(tmp_path):
    path = tmp_path / "one"
    dcp.save(state_of(1), storage_writer=Writer(path), no_dist=True)
    with pytest.raises(CheckpointException, match="cannot be saved"):
        dcp.save({**state_of(2), "x": Odd()}, storage_writer=Writer(path), no_dist=True)
    loaded = state_of(5)
    dcp.load(loaded, storage_reader=Reader(path), no_dist=True)
    assert equal(loaded, state_of(1))


def test_messages(tmp_path):
    with pytest.raises(CheckpointException, match="needs a path"):
        dcp.save(state_of(1), storage_writer=Writer(), no_dist=True)
    with pytest.raises(CheckpointException, match="directories"):
        dcp.save(state_of(1), storage_writer=Writer("s3://bucket/x"), no_dist=True)
    with pytest.raises(CheckpointException, match="nowhere"):
        dcp.load(state_of(1), storage_reader=Reader(tmp_path / "nowhere"), no_dist=True)
    with penstock.Checkpointer(tmp_path) as ckpt:
        ckpt.save(1, {"w": torch.zeros(3)})
    with pytest.raises(CheckpointException, match="not saved through DCP"):
        dcp.load(
            {"w": torch.zeros(3)}, storage_reader=Reader(tmp_path / "step-0000000001"), no_dist=True
        )


def test_only_checkpoints_are_replaced(tmp_path):
    (tmp_path / "project" / "src").mkdir(parents=True)
    with pytest.raises(CheckpointException, match="no checkpoint: it is not replaced"):
        dcp.save(state_of(1), storage_writer=Writer(tmp_path / "project"), no_dist=True)
    assert (tmp_path / "project" / "src").is_dir()
    # And what failed holds up nobody.
    dcp.save(state_of(1), storage_writer=Writer(tmp_path / "one"), no_dist=True)


def test_nothing_and_odd_names(tmp_path):
    dcp.save({}, storage_writer=Writer(tmp_path / "none"), no_dist=True)
    dcp.save({"penstock.part": 1}, storage_writer=Writer(tmp_path / "odd"), no_dist=True)
    loaded = {"penstock.part": 0}
    dcp.load(loaded, storage_reader=Reader(tmp_path / "odd"), no_dist=True)
    assert loaded == {"penstock.part": 1}


def test_into_what_is_seen_through_a_bit(tmp_path):
    dcp.save({"f": torch.tensor([5.0])}, storage_writer=Writer(tmp_path / "one"), no_dist=True)
    target = torch._neg_view(torch.zeros(1))
    dcp.load({"f": target}, storage_reader=Reader(tmp_path / "one"), no_dist=True)
    assert target.item() == 5.0
