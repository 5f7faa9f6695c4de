"""penstock.Checkpointer with real torch, numpy and safetensors."""

import collections
import json
import shutil
import signal
from pathlib import Path

import numpy as np
import penstock
import pytest
from checkpoint_states import equal, round_trip, start

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")


def test_any_nesting_comes_back(tmp_path):
    state = {
        "none": None,
        "numbers": [1, -(2**70), 0.1, float("inf"), float("nan"), True],
        "text": "ä\n\u2028",
        "bytes": bytes(range(256)),
        "tuple": (1, ("a", [])),
        "ordered": collections.OrderedDict(b=1, a=2),
        3: {"int key": 1, (1, 2): "tuple key", None: 0, 2.5: 1},
        "array": np.arange(12, dtype=np.float64).reshape(3, 4)[:, ::2],
        "big endian": np.arange(3, dtype=">i4"),
        "np scalar": np.float32(0.1),
        "empty": {},
        "tensor": torch.arange(5),
    }
    expected = {**state, "big endian": state["big endian"].astype("=i4")}
    assert equal(round_trip(state, tmp_path), expected)


def test_kinds_of_dict_come_back_as_documented(tmp_path):
    counted = collections.Counter("abba")
    filled = collections.defaultdict(list, {"x": [1]})
    ordered = collections.OrderedDict(b=1, a=2)
    state = {"c": counted, "d": filled, "o": ordered, "s": torch.Size((2, 3))}
    back = round_trip(state, tmp_path)
    assert [type(back[name]) for name in "cdos"] == [dict, dict, collections.OrderedDict, tuple]
    assert back["c"] == {"a": 2, "b": 2} and back["d"] == {"x": [1]}
    assert list(back["o"]) == ["b", "a"] and back["s"] == (2, 3)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.bool,
        torch.complex64,
        torch.uint16,
        torch.int64,
        torch.float8_e8m0fnu,
    ],
)
def test_dtypes_and_shapes(tmp_path, dtype):
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (64,), dtype=torch.uint8)
    state = {
        "one": raw.view(dtype),
        "zero-d": raw[:8].view(dtype)[0],
        "nothing": torch.empty((0, 3), dtype=dtype),
        "transposed": raw.view(dtype)[:8].reshape(2, 4).t() if dtype.itemsize <= 8 else None,
    }
    assert equal(round_trip(state, tmp_path), state)


def test_tied_weights_are_saved_once_and_tied_again(tmp_path):
    weight = torch.randn(100, 100)
    state = {"encoder": weight, "decoder": weight, "same": weight.view(100, 100)}
    back = round_trip(state, tmp_path)
    assert back["encoder"].data_ptr() == back["decoder"].data_ptr() == back["same"].data_ptr()
    data = next(tmp_path.glob("step-*/data-*.safetensors"))
    assert data.stat().st_size < 100 * 100 * 4 + 8192


def test_views_that_overlap_share_memory_again(tmp_path):
    base = torch.arange(100, dtype=torch.float32)
    state = {"base": base, "part": base[10:20], "strided": base[::3], "other": torch.ones(3)}
    back = round_trip(state, tmp_path)
    assert equal(back, state)
    back["base"][12] = -1
    assert back["part"][2] == -1 and back["strided"][4] == -1


def test_strides_come_back(tmp_path):
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    back = round_trip({"x": image, "slice": torch.randn(10, 10)[:, 2:5]}, tmp_path)
    assert back["x"].stride() == image.stride() and torch.equal(back["x"], image)
    assert back["slice"].is_contiguous()


def test_later_changes_do_not_leak_in(tmp_path):
    tensor = torch.zeros(1_000_000)
    with penstock.Checkpointer(tmp_path, max_bandwidth=8_000_000) as ckpt:
        ckpt.save(1, {"x": tensor})
        tensor += 1
    assert torch.equal(penstock.Checkpointer(tmp_path).load()["x"], torch.zeros(1_000_000))


def test_what_cannot_be_saved_is_named(tmp_path):
    ckpt = penstock.Checkpointer(tmp_path)
    with pytest.raises(ValueError, match=r"optim\.0\.fn: a builtins\.function"):
        ckpt.save(1, {"optim": [{"fn": lambda: 0}]})
    with pytest.raises(ValueError, match=r"model\.w: only dense"):
        ckpt.save(1, {"model": {"w": torch.eye(3).to_sparse()}})
    with pytest.raises(ValueError, match=r"z: tensors of torch\.complex128"):
        ckpt.save(1, {"z": torch.zeros(2, dtype=torch.complex128)})
    with pytest.raises(ValueError, match=r"a: arrays of object"):
        ckpt.save(1, {"a": np.array([object()])})
    with pytest.raises(ValueError, match="step=-1"):
        ckpt.save(-1, {})
    with pytest.raises(ValueError, match="when_busy"):
        penstock.Checkpointer(tmp_path, when_busy="panic")
    assert ckpt.steps() == []


def test_stock_safetensors_reads_the_files(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(30, 20), torch.nn.BatchNorm1d(20))
    state = model.state_dict()
    with penstock.Checkpointer(tmp_path) as ckpt:
        ckpt.save(5, {"model": state})
    files = list(tmp_path.glob("step-0000000005/*.safetensors"))
    read = {}
    for file in files:
        read |= safetensors_torch.load_file(file)
    assert read.keys() == {f"model.{name}" for name in state}
    for name, tensor in state.items():
        assert torch.equal(read[f"model.{name}"], tensor)


def test_a_model_and_its_optimizer_go_on_as_before(tmp_path):
    def make():
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 8)
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(model, optim, n):
        for i in range(n):
            optim.zero_grad()
            model(torch.full((4, 8), float(i))).square().sum().backward()
            optim.step()

    model, optim = make()
    step(model, optim, 3)
    with penstock.Checkpointer(tmp_path) as ckpt:
        ckpt.save(3, {"model": model.state_dict(), "optim": optim.state_dict()})
        step(model, optim, 4)
    other, other_optim = make()
    state = penstock.Checkpointer(tmp_path).load()
    other.load_state_dict(state["model"])
    other_optim.load_state_dict(state["optim"])
    step(other, other_optim, 4)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])


def test_parts_are_loaded_by_name(tmp_path):
    with penstock.Checkpointer(tmp_path) as ckpt:
        ckpt.save(
            1, {"model": {"a": torch.ones(3), "b": torch.zeros(2)}, "optim": torch.ones(9), "n": 1}
        )
    ckpt = penstock.Checkpointer(tmp_path)
    assert equal(ckpt.load(only="model.*"), {"model": {"a": torch.ones(3), "b": torch.zeros(2)}})
    assert list(ckpt.load(only=["optim", "model.a"])["model"]) == ["a"]
    with pytest.raises(FileNotFoundError, match="nobody"):
        ckpt.load(only="nobody.*")


def test_the_newest_that_is_whole_is_loaded(tmp_path, capfd):
    with penstock.Checkpointer(tmp_path) as ckpt:
        for step in (1, 2, 3):
            ckpt.save(step, {"step": step, "x": torch.full((10,), step)})
    assert penstock.Checkpointer(tmp_path).load()["step"] == 3
    (tmp_path / "step-0000000003" / "manifest.json").unlink()
    assert penstock.Checkpointer(tmp_path).load()["step"] == 2
    assert "step-0000000003: it has no manifest" in capfd.readouterr().err
    data = next(tmp_path.glob("step-0000000002/*.safetensors"))
    raw = bytearray(data.read_bytes())
    raw[-1] ^= 1
    data.write_bytes(raw)
    with pytest.raises(penstock.CorruptError, match="tensor 'x'.*data-00000"):
        penstock.Checkpointer(tmp_path).load(step=2)
    with pytest.raises(FileNotFoundError):
        penstock.Checkpointer(tmp_path).load(step=7)


def test_a_damaged_tensor_falls_back_to_the_step_before(tmp_path, capfd):
    with penstock.Checkpointer(tmp_path) as ckpt:
        for step in (1, 2):
            ckpt.save(step, {"step": step, "x": torch.full((10,), step)})
    data = next(tmp_path.glob("step-0000000002/*.safetensors"))
    raw = bytearray(data.read_bytes())
    raw[-1] ^= 1
    data.write_bytes(raw)
    assert penstock.Checkpointer(tmp_path).load()["step"] == 1
    assert "tensor 'x'" in capfd.readouterr().err


def test_replicas_stand_in_for_what_is_lost(tmp_path, capfd):
    first, second = tmp_path / "nvme", tmp_path / "far"
    with penstock.Checkpointer(first, replicate=second, keep_last=2) as ckpt:
        for step in (1, 2, 3):
            ckpt.save(step, {"step": step, "x": torch.full((10,), step)}).replicated(timeout=60)
    places = {"directory": first, "replicate": [second]}
    data = next(first.glob("step-0000000003/*.safetensors"))
    raw = bytearray(data.read_bytes())
    raw[-1] ^= 1
    data.write_bytes(raw)
    assert penstock.Checkpointer(**places).load()["step"] == 3
    assert "tensor 'x'" in capfd.readouterr().err
    shutil.rmtree(first)
    assert penstock.Checkpointer(**places).load()["step"] == 3
    assert penstock.Checkpointer(**places).steps() == [2, 3]
    assert penstock.Checkpointer(second).load(step=2)["step"] == 2


def test_each_tier_keeps_what_it_is_told_to(tmp_path):
    tiers = [
        tmp_path / "b",
        penstock.Tier(tmp_path / "c", keep_every=2),
        penstock.Tier(tmp_path / "d"),
    ]
    with penstock.Checkpointer(tmp_path / "a", replicate=tiers, keep_last=1) as ckpt:
        for step in range(1, 6):
            ckpt.save(step, {"step": step})
    kept = {name: penstock.Checkpointer(tmp_path / name).steps() for name in "abcd"}
    assert kept == {"a": [5], "b": [5], "c": [2, 4, 5], "d": [1, 2, 3, 4, 5]}
    assert repr(tiers[1]).endswith("keep_last=None, keep_every=2)")
    for wrong in ({"keep_last": 0}, {"keep_every": "3"}):
        with pytest.raises(penstock.InvalidError, match=next(iter(wrong))):
            penstock.Tier("x", **wrong)
    with pytest.raises(penstock.InvalidError, match=r"penstock\.Tier"):
        penstock.Checkpointer(tmp_path, replicate=[5])


SAVES = """
    import sys, torch, penstock
    ckpt = penstock.Checkpointer(sys.argv[1], keep_last=2)
    step = max(ckpt.steps(), default=0)
    while True:
        step += 1
        state = {"step": step, "x": torch.full((300_000,), step), "y": torch.ones(step % 7)}
        ckpt.save(step, state).durable()
        print(step, flush=True)
"""


def test_killed_at_any_moment_the_last_durable_one_loads(tmp_path):
    for round_ in range(8):
        process = start(SAVES, tmp_path)
        last = 0
        for line in process.stdout:
            last = int(line)
            if last % 5 == round_ % 5 and last > 3:
                break
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
        last = max([last, *map(int, rest)])
        process.wait()
        process.stdout.close()
        state = penstock.Checkpointer(tmp_path).load()
        assert state["step"] >= last
        assert torch.equal(state["x"], torch.full((300_000,), state["step"]))


def test_what_is_under_way_at_exit_is_finished(tmp_path):
    script = """
        import sys, torch, penstock
        penstock.Checkpointer(sys.argv[1]).save(1, {"x": torch.ones(1_000_000)})
    """
    with start(script, tmp_path) as process:
        assert process.wait(60) == 0
    assert torch.equal(penstock.Checkpointer(tmp_path).load()["x"], torch.ones(1_000_000))


def test_sigterm_saves_and_ends(tmp_path):
    script = """
        import sys, time, torch, penstock
        ckpt = penstock.Checkpointer(sys.argv[1])
        ckpt.on_sigterm(lambda: ckpt.save(7, {"x": torch.ones(10)}))
        print("ready", flush=True)
        time.sleep(60)
    """
    with start(script, tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM
    assert penstock.Checkpointer(tmp_path).steps() == [7]


def test_one_writer_and_any_number_of_readers(tmp_path):
    with penstock.Checkpointer(tmp_path) as ckpt:
        ckpt.save(1, {"a": 1}).durable()
        with pytest.raises(penstock.PenstockError, match="another process saves"):
            penstock.Checkpointer(tmp_path).save(2, {"a": 2})
        assert penstock.Checkpointer(tmp_path).load() == {"a": 1}


def test_reports_tell_the_stall(tmp_path):
    with penstock.Checkpointer(tmp_path) as ckpt:
        handle = ckpt.save(1, {"x": torch.ones(1000)})
        handle.durable(timeout=60)
        report = handle.report()
    assert 0 < report["stall"] < report["durable"]
    assert json.dumps(report) and Path(tmp_path, "latest").read_text() == "step-0000000001\n"


def test_views_through_a_bit_that_memory_does_not_have(tmp_path):
    x = torch.tensor([1 + 2j, 3 + 4j])
    state = {"x": x, "c": x.conj(), "part": x.conj()[1:], "neg": x.conj().imag, "imag": x.imag}
    loaded = round_trip(state, tmp_path)
    for name, tensor in state.items():
        assert torch.equal(loaded[name], tensor.resolve_conj().resolve_neg()), name


def test_memories_of_different_sizes_at_one_address(tmp_path):
    data = np.arange(10.0)
    state = {"short": torch.from_numpy(data[:2]), "long": torch.from_numpy(data)}
    loaded = round_trip(state, tmp_path)
    assert torch.equal(loaded["long"], state["long"])
    assert torch.equal(loaded["short"], state["short"])


def test_what_would_lose_something_is_refused(tmp_path):
    masked = np.ma.MaskedArray([1.0, 2.0], mask=[True, False])
    with pytest.raises(penstock.InvalidError, match="m: MaskedArray cannot be saved"):
        penstock.Checkpointer(tmp_path).save(1, {"m": masked})
    with pytest.raises(penstock.InvalidError, match="replicate="):
        penstock.Checkpointer("s3://bucket/run")


def test_told_to_end_at_a_step_that_is_saved_already(tmp_path):
    script = """
        import os, signal, sys, time
        import numpy as np
        import penstock
        ckpt = penstock.Checkpointer(sys.argv[1])
        ckpt.on_sigterm(lambda: ckpt.save(1, {"x": np.zeros(3)}))
        ckpt.save(1, {"x": np.zeros(3)})
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    """
    process = start(script, tmp_path)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM
    assert penstock.Checkpointer(tmp_path).steps() == [1]


def test_numbers_as_people_write_them(tmp_path):
    with penstock.Checkpointer(tmp_path, max_bandwidth=1e9, keep_last=2.0) as ckpt:
        ckpt.save(np.int64(5), {"x": 1}).durable()
        assert ckpt.steps() == [5]
        for step in (-1, 1.0, "1", True, 2**64):
            with pytest.raises(penstock.InvalidError, match="step="):
                ckpt.save(step, {})
    for wrong in (
        {"max_bandwidth": -1},
        {"arena_bytes": "4GiB"},
        {"keep_last": 2.5},
        {"keep_last": 0},
        {"max_threads": 10**6},
        {"replicate": tmp_path},
    ):
        with pytest.raises(penstock.InvalidError, match=next(iter(wrong))):
            penstock.Checkpointer(tmp_path, **wrong)
