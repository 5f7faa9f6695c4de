"""penstock checkpoint list, show, verify and prune."""

import json
import subprocess

import penstock
import pytest
from conftest import BUILD

torch = pytest.importorskip("torch")
PENSTOCK = BUILD / "src/cli/penstock"


def run(*words, code=0):
    command = [str(PENSTOCK), "checkpoint", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def directory(tmp_path):
    with penstock.Checkpointer(tmp_path / "run") as ckpt:
        for step in (10, 20, 30):
            model = {"w": torch.full((100, 10), step), "b": torch.zeros(step)}
            ckpt.save(step, {"model": model, "step": step}, metadata={"loss": 0.5})
    return tmp_path / "run"


def damage(directory, step):
    data = next(directory.glob(f"step-{step:010}/*.safetensors"))
    raw = bytearray(data.read_bytes())
    raw[5000] ^= 1
    data.write_bytes(raw)


def test_list_and_show(directory):
    told = json.loads(run("list", directory, "--json").stdout)["checkpoints"]
    assert [one["step"] for one in told] == [30, 20, 10]
    assert all(one["tensors"] == 2 and one["damage"] is None for one in told)
    assert run("list", f"{directory}/").stdout.count("complete") == 3
    shown = json.loads(run("show", directory, "--step", 20, "--json").stdout)
    assert shown["metadata"] == {"loss": "0.5"}
    assert {one["name"]: one["shape"] for one in shown["tensors"]} == {
        "model.w": [100, 10],
        "model.b": [20],
    }
    assert "model.w" in run("show", directory / "step-0000000010").stdout


def test_what_differs(directory):
    text = run("show", directory, "--step", 10, "--diff", 20).stdout
    assert "changed   model.w" in text and "reshaped  model.b" in text


def test_verify_names_the_damage(directory):
    assert "verified" in run("verify", directory).stdout
    damage(directory, 20)
    told = json.loads(run("verify", directory, "--json", code=1).stdout)
    assert not told["whole"]
    errors = {one["step"]: one["errors"] for one in told["checkpoints"]}
    assert errors[10] == errors[30] == []
    assert "model.w" in errors[20][0] and "data-00000.safetensors" in errors[20][0]
    run("verify", directory, "--step", 30)
    (directory / "step-0000000030" / "manifest.json").unlink()
    assert "no manifest" in run("list", directory, code=1).stdout


def test_prune(directory):
    would = run("prune", directory, "--keep-last", 1, "--keep-every", 20, "--dry-run").stdout
    assert "would remove 1 checkpoints: steps 10" in would
    assert penstock.Checkpointer(directory).steps() == [10, 20, 30]
    run("prune", directory, "--keep-last", 1, "--keep-every", 20)
    assert penstock.Checkpointer(directory).steps() == [20, 30]
    with penstock.Checkpointer(directory) as ckpt:
        ckpt.save(40, {}).durable()
        assert "another process saves" in run("prune", directory, "--keep-last", 1, code=1).stderr


def test_typed_wrongly(directory, tmp_path):
    assert "No such file" in run("list", tmp_path / "nowhere", code=1).stderr
    assert "no checkpoint is there" in run("list", tmp_path, code=1).stderr
    assert "is no directory" in run("list", directory / "latest", code=2).stderr
    assert "step 7" in run("verify", directory, "--step", 7, code=1).stderr
    run("prune", directory, code=2)
    run("prune", directory, "--keep-last", 0, code=2)


def test_copy_and_places(directory, tmp_path):
    second = tmp_path / "second"
    assert "step 30" in run("copy", directory, second).stdout
    assert "nothing to copy" in run("copy", directory, second).stdout
    told = json.loads(run("copy", directory, second, "--all", "--json").stdout)["copied"]
    assert [one["step"] for one in told] == [10, 20]
    run("verify", second)
    assert penstock.Checkpointer(second).load(step=20)["step"] == 20
    run("prune", second, "--keep-last", "1")
    lines = run("list", directory, "--also", second).stdout.splitlines()
    assert f"also in {second}" in lines[1] and "also in" not in lines[2]
    damage(directory, 20)
    failed = run("copy", directory, second, "--step", "20", code=1)
    assert "is damaged: it is not copied" in failed.stderr
    assert penstock.Checkpointer(second).steps() == [30]


def test_one_that_has_another_name(tmp_path):
    from penstock.dcp import Writer

    dcp = pytest.importorskip("torch.distributed.checkpoint")
    path = tmp_path / "model"
    dcp.save({"w": torch.arange(10)}, storage_writer=Writer(path), no_dist=True)
    assert "complete" in run("list", path).stdout
    assert "I64[10]" in run("show", path).stdout
    run("verify", path)
    assert "penstock sync" in run("copy", path, tmp_path / "x", code=2).stderr


def test_prune_takes_a_run(directory):
    one = directory / "step-0000000020"
    assert "prune takes a run" in run("prune", one, "--keep-last", "1", code=2).stderr
    assert penstock.Checkpointer(directory).steps() == [10, 20, 30]
