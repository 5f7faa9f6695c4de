"""Loads into tensors that are there and over files; incremental saves; sums; reports."""

import subprocess

import numpy as np
import penstock
import pytest

torch = pytest.importorskip("torch")


def state_of(seed):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(40, 30, generator=generator)
    return {
        "w": weight,
        "tied": weight,
        "half": torch.randn(7, generator=generator).to(torch.bfloat16),
        "columns": torch.randn(6, 4, generator=generator).t(),
        "array": np.arange(seed, seed + 5),
        "empty": torch.zeros(0, 3),
        "list": [torch.tensor(seed), {"lr": 0.5 * seed}, "text"],
    }


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.fixture(name="saved")
def fixture_saved(tmp_path):
    with penstock.Checkpointer(tmp_path / "run") as ckpt:
        ckpt.save(1, state_of(1))
        ckpt.save(2, state_of(2))
    return tmp_path / "run"


def damage(path, offset=-1):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_into_fills_the_tensors_that_are_there(saved):
    into = state_of(9)
    tensors = [into["w"], into["half"], into["columns"], into["array"], into["list"][0]]
    loaded = penstock.Checkpointer(saved).load(into=into)
    assert same(loaded, state_of(2))
    back = [loaded["w"], loaded["half"], loaded["columns"], loaded["array"], loaded["list"][0]]
    assert all(a is b for a, b in zip(tensors, back))
    assert loaded["w"] is loaded["tied"]


def test_into_a_model_in_place(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 3)
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with penstock.Checkpointer(tmp_path) as ckpt:
        ckpt.save(1, {"model": model.state_dict()})
        with torch.no_grad():
            model.weight.zero_()
        ckpt.close()
    penstock.load(tmp_path / "step-0000000001", into={"model": model.state_dict()})
    assert same(dict(model.state_dict()), expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("half"), "differ in .'half'."),
        (lambda s: s.update(more=1), "differ in .'more'."),
        (lambda s: s.update(w=torch.zeros(2)), r"w: the checkpoint has F32 \[40, 30\]"),
        (lambda s: s.update(half=torch.zeros(7)), r"half: the checkpoint has BF16"),
        (lambda s: s["list"].pop(), "list: the checkpoint has 3 items"),
    ],
)
def test_into_another_state_is_refused_before_anything_is_touched(saved, change, message):
    into = state_of(9)
    change(into)
    before = into["tied"].clone()
    with pytest.raises(penstock.InvalidError, match=message):
        penstock.Checkpointer(saved).load(into=into)
    assert torch.equal(into["tied"], before)


def test_into_what_cannot_be_written_to_is_refused_before_anything_is_touched(tmp_path):
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    one = torch.zeros(2)
    with penstock.Checkpointer(tmp_path) as ckpt:
        state = {"a": torch.ones(2), "b": torch.full((2,), 2.0), "r": np.ones(3), "n": None}
        ckpt.save(1, state).durable()
        for change, message in (
            ({"r": fixed}, "r: that cannot be written to"),
            ({"b": torch.zeros(1).expand(2)}, "b: that cannot be written to"),
            ({"b": torch.zeros(2, device="meta")}, "b: that cannot be written to"),
            ({"n": torch.zeros(1)}, "n: the checkpoint has no tensor there"),
            ({"a": one, "b": one}, "are one tensor in the state given"),
        ):
            into = {"a": torch.zeros(2), "b": torch.zeros(2), "r": np.zeros(3), "n": None, **change}
            with pytest.raises(penstock.InvalidError, match=message):
                ckpt.load(into=into)
            assert not into["a"].any() and not one.any()


def test_into_falls_back_or_says_that_the_state_is_poisoned(saved, capfd):
    damage(saved / "step-0000000002" / "data-00000.safetensors")
    into = state_of(9)
    assert same(penstock.Checkpointer(saved).load(into=into), state_of(1))
    assert "is damaged" in capfd.readouterr().err
    damage(saved / "step-0000000001" / "data-00000.safetensors")
    with pytest.raises(penstock.PoisonedError, match="must not be used"):
        penstock.Checkpointer(saved).load(into=into)
    with pytest.raises(penstock.PoisonedError):
        penstock.load(saved / "step-0000000001", into=into)


def test_mapped(saved):
    loaded = penstock.Checkpointer(saved).load(mmap=True)
    assert same(loaded, state_of(2))
    loaded["w"].zero_()  # Stays in memory.
    part = penstock.Checkpointer(saved).load(mmap=True, only="w")
    assert same(part, {"w": state_of(2)["w"]})
    (saved / "step-0000000002" / "data-00000.safetensors").write_bytes(b"cut")
    assert same(penstock.Checkpointer(saved).load(mmap=True), state_of(1))
    for wrong in ({"mmap": True}, {"only": "w"}, {"device": "cpu"}):
        with pytest.raises(penstock.InvalidError, match="into="):
            penstock.Checkpointer(saved).load(into=state_of(1), **wrong)


def test_incremental_links_what_stays(tmp_path):
    frozen = torch.randn(5 << 20)
    with penstock.Checkpointer(tmp_path, incremental=True, keep_last=1) as ckpt:
        for step in (1, 2, 3):
            state = {"frozen": frozen, "head": torch.full((5 << 20,), float(step))}
            handle = ckpt.save(step, state)
            handle.durable()
        told = handle.report()
        assert 20 << 20 <= told["linked_bytes"] < 21 << 20 and told["bytes"] > 40 << 20
        assert ckpt.report()["bytes_written"] < 90 << 20
        assert same(ckpt.load(), state)
    files = list((tmp_path / "step-0000000003").glob("*.safetensors"))
    assert len(files) == 2 and all(file.stat().st_nlink == 1 for file in files)


def test_sums_are_what_other_tools_compute(tmp_path):
    places = {"replicate": tmp_path / "second", "sha256sums": True}
    with penstock.Checkpointer(tmp_path / "first", **places) as ckpt:
        ckpt.save(1, state_of(1)).replicated(timeout=60)
    for place in ("first", "second"):
        folder = tmp_path / place / "step-0000000001"
        done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=folder, capture_output=True)
        assert done.returncode == 0 and b"manifest.json: OK" in done.stdout, done


def test_reports_and_metrics(tmp_path):
    with penstock.Checkpointer(tmp_path, max_bandwidth=40 << 20) as ckpt:
        for _ in range(5):
            ckpt.step_done()
        handle = ckpt.save(1, {"w": torch.zeros(5 << 20)})
        while not handle.done:
            torch.zeros(1000).sum()
            ckpt.step_done()
        for _ in range(5):
            ckpt.step_done()
        told = ckpt.report()
    assert told["saves"] == told["durable"] == 1 and told["under_way"] == 0
    assert told["steps_while_writing"] > 0 and told["steps_otherwise"] > 3
    assert isinstance(told["drag"], float)
    assert 20 << 20 < told["bytes_per_second"] * told["durable_seconds"][0]
    text = penstock.metrics()
    assert "penstock_checkpoint_saves_total" in text
    assert "penstock_checkpoint_stall_seconds_count" in text


def test_falling_behind_is_said(tmp_path, capfd):
    with penstock.Checkpointer(tmp_path, max_bandwidth=8 << 20) as ckpt:
        for step in (1, 2):
            ckpt.save(step, {"w": torch.zeros(5 << 20)})
    assert "falls behind" in capfd.readouterr().err


def test_manifests_name_the_versions(saved):
    text = (saved / "step-0000000001" / "manifest.json").read_text()
    assert f"torch {torch.__version__}" in text and "penstock 0." in text


def test_what_is_more_than_memory_is_refused(tmp_path):
    with penstock.Checkpointer(tmp_path) as ckpt:
        with pytest.raises(penstock.InvalidError, match="a.b: tensors on the meta device"):
            ckpt.save(1, {"a": {"b": torch.zeros(3, device="meta")}})
