"""penstock.Checkpointer as people use it: parts of a state, wrong paths, Ctrl-C."""

import signal
import time

import numpy as np
import penstock
import pytest
from checkpoint_states import round_trip, start

torch = pytest.importorskip("torch")


def test_ctrl_c_ends_the_wait_for_an_earlier_save(tmp_path):
    script = """
        import signal, sys, time
        import numpy as np
        import penstock
        signal.signal(signal.SIGINT, signal.default_int_handler)
        ckpt = penstock.Checkpointer(sys.argv[1], max_bandwidth=4_000_000)
        ckpt.save(1, {"x": np.ones(3_000_000)})
        print("waits", flush=True)
        begun = time.monotonic()
        try:
            ckpt.save(2, {"x": np.ones(3_000_000)})
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begun < 3, ckpt._last.done, flush=True)
        ckpt.close()
        print(ckpt.steps())
    """
    process = start(script, tmp_path)
    assert process.stdout.readline().split() == ["waits"]
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out.split() == ["interrupted", "True", "False", "[1]"], out + err


def test_patterns_name_parts_of_the_tree(tmp_path):
    tied = torch.arange(4.0)
    state = {
        "model": {"a": tied, "b": torch.ones(2), "none": None},
        "ema": {"a": tied, "list": [torch.zeros(1), 5, torch.ones(1)]},
        "step": 7,
        (1, 2): "pair",
    }
    with penstock.Checkpointer(tmp_path) as ckpt:
        ckpt.save(1, state).durable()

        def load(only):
            return ckpt.load(only=only)

        assert list(load("ema.a")) == ["ema"]
        assert torch.equal(load("ema.a")["ema"]["a"], tied)
        both = load(["model.*", "ema.a"])
        assert both["model"]["a"] is both["ema"]["a"] and both["model"]["none"] is None
        assert "step" not in both and "list" not in both["ema"]
        assert load("step") == {"step": 7}
        assert load("(1, 2)") == {(1, 2): "pair"}
        assert load("model")["model"].keys() == state["model"].keys()
        assert torch.equal(load("ema.list.2")["ema"]["list"][0], torch.ones(1))
        with pytest.raises(penstock.NotFoundError, match=r"nothing is called 'optim\.\*'"):
            load(["model.*", "optim.*"])
        for wrong in (5, [], [5], b"model"):
            with pytest.raises(penstock.InvalidError, match="only="):
                load(wrong)


def test_a_module_keeps_the_versions_of_its_state(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    loaded = round_trip({"model": model.state_dict()}, tmp_path)
    assert loaded["model"]._metadata == model.state_dict()._metadata
    assert loaded["model"]._metadata["1"] == {"version": 2}


def test_states_that_never_end_are_refused(tmp_path):
    cyclic = {"a": []}
    cyclic["a"].append(cyclic)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with penstock.Checkpointer(tmp_path) as ckpt:
        for state in (cyclic, deep):
            with pytest.raises(penstock.InvalidError, match="too deeply, or contains itself"):
                ckpt.save(1, state)
        for state in ({"\ud800": torch.ones(1)}, {"x": "\ud800"}, {"\udcff": 1}):
            with pytest.raises(penstock.InvalidError, match="Unicode"):
                ckpt.save(1, state)
        assert ckpt.steps() == []


def test_paths_that_are_no_checkpoint(tmp_path):
    run = tmp_path / "run"
    with penstock.Checkpointer(run) as ckpt:
        ckpt.save(3, {"x": 1}).durable()
        for wrong in ("3", 3.0, -1, True):
            with pytest.raises(penstock.InvalidError, match="step="):
                ckpt.load(step=wrong)
        for wrong in (-1, "0", 1.0):
            with pytest.raises(penstock.InvalidError, match="rank="):
                ckpt.load(rank=wrong)
    assert penstock.load(run / "step-0000000003") == {"x": 1}
    with pytest.raises(penstock.InvalidError, match=r"is a run: .* step-0000000003"):
        penstock.load(run)
    (tmp_path / "file").write_text("")
    with pytest.raises(penstock.InvalidError, match="is a file"):
        penstock.load(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(penstock.NotFoundError, match="no checkpoint is there"):
        penstock.load(tmp_path / "empty")
    with pytest.raises(penstock.NotFoundError):
        penstock.load(tmp_path / "nothing")
    with pytest.raises(penstock.InvalidError, match="one checkpoint is meant"):
        penstock.load("s3://bucket/run")
    with pytest.raises(penstock.PenstockError, match="file"):
        penstock.Checkpointer(tmp_path / "file").steps()


def test_large_tensors_are_read_straight_into_place(tmp_path):
    """And are as any other: they can be saved, resized, viewed and saved again."""
    big = torch.randn(700_001)
    state = {"big": big, "odd": torch.arange(3, dtype=torch.uint8), "array": np.arange(300_000.0)}
    state["tail"] = torch.randn(1 << 20)
    state["view"] = state["tail"][100:200]
    loaded = state
    for step in range(3):
        loaded = round_trip(loaded, tmp_path / str(step))
        assert torch.equal(loaded["big"], big) and torch.equal(loaded["tail"], state["tail"])
        assert np.array_equal(loaded["array"], state["array"])
        loaded["tail"][150] = step
        assert loaded["view"][50] == step
        loaded["tail"][150] = state["tail"][150]
        assert loaded["tail"].untyped_storage().nbytes() <= (4 << 20) + 4096
    loaded["big"].untyped_storage().resize_(0)
