"""Several processes that save each checkpoint together."""

import signal
import time

import penstock
import pytest
from rank_processes import finish, start_ranks

torch = pytest.importorskip("torch")

SAVE_AND_LOAD = """
    ranks = "torch" if meeting else (rank, count)
    with penstock.Checkpointer(directory, ranks=ranks, keep_last=2, rank_timeout=60) as ckpt:
        for step in (1, 2, 3):
            state = {"w": torch.full((1000,), rank * 10.0 + step), "step": step, "rank": rank}
            handle = ckpt.save(step, state)
        handle.durable()
        loaded = ckpt.load()
        assert loaded["step"] == 3 and loaded["rank"] == rank
        assert torch.equal(loaded["w"], state["w"])
        loaded = ckpt.load(step=2)
        assert loaded["step"] == 2
"""


@pytest.mark.parametrize("distributed", [False, True])
def test_ranks_save_and_load_together(tmp_path, distributed):
    meeting = tmp_path / "meeting" if distributed else None
    finish(start_ranks(SAVE_AND_LOAD, tmp_path / "run", 3, distributed=meeting))
    with penstock.Checkpointer(tmp_path / "run") as ckpt:
        assert ckpt.steps() == [2, 3]
        with pytest.raises(penstock.InvalidError, match="saved by 3 ranks"):
            ckpt.load()
        assert ckpt.load(rank=2)["rank"] == 2
        with pytest.raises(penstock.InvalidError, match="there is no rank 3"):
            ckpt.load(rank=3)
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert [name for name in names if name.startswith(".penstock-tmp")] == []


def test_all_load_the_newest_that_every_rank_can_read(tmp_path):
    finish(start_ranks(SAVE_AND_LOAD, tmp_path, 2))
    damaged = tmp_path / "step-0000000003" / "rank-00001-00000.safetensors"
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    script = """
        with penstock.Checkpointer(directory, ranks=(rank, count)) as ckpt:
            print(ckpt.load()["step"])
            try:
                ckpt.load(step=3)
            except penstock.CorruptError as error:
                print("refused", error)
    """
    for text in finish(start_ranks(script, tmp_path, 2)):
        assert text.splitlines()[-1].startswith("refused") or "\nrefused" in text, text
        assert "rank-00001-00000.safetensors" in text
        assert "2" in text.split()


def test_another_number_of_ranks_is_refused(tmp_path):
    finish(start_ranks(SAVE_AND_LOAD, tmp_path, 2))
    script = """
        with penstock.Checkpointer(directory, ranks=(rank, count)) as ckpt:
            try:
                ckpt.load()
            except penstock.InvalidError as error:
                print(error)
    """
    for text in finish(start_ranks(script, tmp_path, 3)):
        assert "saved by 2 ranks, loaded by 3" in text and "penstock.dcp" in text


def test_a_killed_rank_is_named_and_the_last_checkpoint_stays(tmp_path):
    script = """
        import time
        ckpt = penstock.Checkpointer(directory, ranks=(rank, count), rank_timeout=8)
        ckpt.save(1, {"x": torch.full((10,), float(rank))}).durable()
        print("durable", flush=True)
        if rank == 1:
            time.sleep(600)
        time.sleep(0.5)
        try:
            ckpt.save(2, {"x": torch.zeros(10)}).durable()
        except penstock.PenstockError as error:
            print("failed:", error)
        ckpt.close()
    """
    processes = start_ranks(script, tmp_path, 3)
    assert processes[1].stdout.readline() == "durable\n"
    processes[1].send_signal(signal.SIGKILL)
    begun = time.monotonic()
    printed = finish(processes, expect=[0, -signal.SIGKILL, 0])
    assert time.monotonic() - begun < 60
    for rank in (0, 2):
        assert "rank 1 did not come" in printed[rank], printed[rank]
    with penstock.Checkpointer(tmp_path) as ckpt:
        assert ckpt.steps() == [1]
        assert torch.equal(ckpt.load(rank=1)["x"], torch.full((10,), 1.0))


def test_a_state_that_is_refused_is_told_to_all_at_once(tmp_path):
    script = """
        with penstock.Checkpointer(directory, ranks=(rank, count), rank_timeout=300) as ckpt:
            try:
                ckpt.save(1, {"x": object() if rank == 1 else torch.zeros(10)}).durable()
            except penstock.PenstockError as error:
                print("failed:", error)
            ckpt.save(2, {"x": torch.zeros(10)}).durable()
    """
    begun = time.monotonic()
    printed = finish(start_ranks(script, tmp_path, 3))
    assert time.monotonic() - begun < 100
    for rank in (0, 2):
        assert "rank 1: " in printed[rank] and "x" in printed[rank], printed[rank]
    with penstock.Checkpointer(tmp_path) as ckpt:
        assert ckpt.steps() == [2]


def test_a_second_run_waits_for_nobody_of_the_first(tmp_path):
    script = """
        ckpt = penstock.Checkpointer(directory, ranks=(rank, count), rank_timeout=30)
        step = int(os.environ["STEP"])
        ckpt.save(step, {"x": torch.full((10,), float(rank + step))})
        os._exit(0) if os.environ.get("DIE") else ckpt.close()
    """
    import os

    os.environ["STEP"], os.environ["DIE"] = "1", "1"
    try:
        finish(start_ranks(script, tmp_path, 2))
        del os.environ["DIE"]
        os.environ["STEP"] = "2"
        finish(start_ranks(script, tmp_path, 2))
    finally:
        os.environ.pop("DIE", None)
        os.environ.pop("STEP", None)
    with penstock.Checkpointer(tmp_path) as ckpt:
        assert ckpt.steps()[-1] == 2
        assert torch.equal(ckpt.load(step=2, rank=1)["x"], torch.full((10,), 3.0))


def test_only_rank_0_of_torch_may_save_without_saying_so(tmp_path):
    with penstock.Checkpointer(tmp_path) as first:
        first.save(1, {})
        with pytest.raises(penstock.PenstockError, match="another process saves"):
            penstock.Checkpointer(tmp_path).save(2, {})
    for wrong in ((2, 2), "mpi", 5, (0,)):
        with pytest.raises(penstock.InvalidError, match="ranks="):
            penstock.Checkpointer(tmp_path, ranks=wrong)
    with pytest.raises(penstock.InvalidError, match="init_process_group"):
        penstock.Checkpointer(tmp_path, ranks="torch")
