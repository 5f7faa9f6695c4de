"""`pip install .`, as somebody does it who has just cloned the tree."""

import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def copy_tree(to):
    """What git knows of, as it is now: nothing that was built."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


@pytest.mark.long
def test_pip_install_into_a_fresh_environment(shards, tmp_path):
    clone = copy_tree(tmp_path / "clone")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True, timeout=300)
    python = tmp_path / "env/bin/python"
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    install = [python, "-m", "pip", "install", "--disable-pip-version-check", "."]
    done = subprocess.run(install, cwd=clone, env=env, capture_output=True, text=True, timeout=5400)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    shutil.rmtree(clone)
    script = """
        import sys, penstock
        assert penstock.__file__.startswith(sys.prefix), penstock.__file__
        fields = {"text": penstock.Text("txt"), "label": penstock.Int("cls")}
        loader = penstock.Loader(sys.argv[1], fields, batch_size=10)
        print(sum(len(batch["label"]) for batch in loader), next(iter(loader))["text"][3])
    """
    command = [python, "-c", textwrap.dedent(script), str(shards[0].parent / "train-*.tar")]
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert run.stdout == "100 sample 3\n", run.stderr
    command = [tmp_path / "env/bin/penstock", "--version"]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.startswith("penstock ")
