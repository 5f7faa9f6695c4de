"""penstock load and penstock pack images, as they are typed."""

import json
import random
import signal
import subprocess
import sys
import time
from xml.etree import ElementTree

import penstock
import pytest
from conftest import BUILD, jpeg

PENSTOCK = str(BUILD / "src/cli/penstock")


def run(*words, check=True):
    command = [PENSTOCK, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert not check or done.returncode == 0, done.stderr
    return done


@pytest.fixture
def folders(tmp_path):
    """Two classes of ten pictures, and a file that is none."""
    rng = random.Random(4)
    for name in ("cat", "dog"):
        (tmp_path / "train" / name).mkdir(parents=True)
        for i in range(10):
            (tmp_path / "train" / name / f"{i}.jpg").write_bytes(jpeg(rng, 120, 90))
    (tmp_path / "train" / "cat" / "bad.jpg").write_bytes(b"nope")
    return tmp_path / "train"


def test_pack_and_load(folders, tmp_path):
    out = tmp_path / "out"
    done = run("pack", "images", folders, out, "--max-side", 64, "--shuffle", "--json")
    report = json.loads(done.stdout)
    assert report["samples"] == 20 and report["resized"] == 20 and report["failed"] == 1
    assert report["classes"] == ["cat", "dog"] and "bad.jpg" in done.stderr
    assert (out / "classes.txt").read_text() == "cat\ndog\n"
    fields = {"image": penstock.Image("jpg", size=48), "label": penstock.Int("cls")}
    batch = next(iter(penstock.Loader(str(out), fields, batch_size=20)))
    assert sorted(batch["label"].tolist()) == [0] * 10 + [1] * 10
    assert batch["label"].tolist() != sorted(batch["label"].tolist())
    told = run(
        "load", out / "shard-*.tar", "--image", 48, "--int", "cls", "--batch", 5, "--explain"
    )
    assert told.stdout.startswith("20 samples in 4 batches") and "=> " in told.stdout


def test_shards_are_cut_and_none_is_overwritten(folders, tmp_path):
    out = tmp_path / "out"
    run("pack", "images", folders, out, "--shard-size", "20KiB", "--names")
    shards = sorted(out.glob("shard-*.tar"))
    assert len(shards) > 3 and all(path.stat().st_size <= 20 * 1024 for path in shards)
    dataset = penstock.Dataset([str(path) for path in shards])
    assert len(dataset) == 20 and json.loads(dataset[0]["json"])["file"].endswith(".jpg")
    again = run("pack", "images", folders, out, check=False)
    assert again.returncode == 1 and "already" in again.stderr


def test_a_stop_leaves_no_half_shard(folders, tmp_path):
    rng = random.Random(5)
    big = jpeg(rng, 1500, 1200)
    for i in range(300):
        (folders / "dog" / f"big{i}.jpg").write_bytes(big)
    command = [PENSTOCK, "pack", "images", folders, tmp_path / "out", "--max-side", "64"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as packing:
        while not (tmp_path / "out").exists():
            time.sleep(0.01)
        time.sleep(0.1)
        packing.send_signal(signal.SIGINT)
        assert packing.wait(timeout=20) == 130
    assert not list((tmp_path / "out").glob("*"))


def test_wrong_things_are_said(folders, tmp_path):
    for words, code, text in (
        (["load", tmp_path / "nothing"], 1, "nothing"),
        (["load", folders, "--batch", 100, "--image", 32], 2, "do not fill one step"),
        (["load", folders, "--shuffle", "wild"], 2, "wild"),
        (["load", folders, "--image", 32, "--dtype", "float8"], 2, "float8"),
        (["load", folders, "--page-cache", "none"], 2, "buffered"),
        (["pack", "images", tmp_path / "nothing", tmp_path / "out"], 1, "nothing"),
    ):
        done = run(*words, check=False)
        assert done.returncode == code and text in done.stderr, (words, done)


def test_a_dry_run_tells_how_good_the_shuffle_is(shards):
    told = json.loads(
        run(
            "load", shards[0].parent, "--batch", 50, "--shuffle", "global", "--dry-run", "--json"
        ).stdout
    )
    assert told["shards"] == 4 and told["shards_per_batch"] == 4
    assert 0.25 < told["neighbours_apart"] < 0.42


def test_skipped_samples_are_listed(folders):
    done = run("load", folders, "--image", 32, "--batch", 21, "--skip-errors", "--json")
    report = json.loads(done.stdout)
    assert report["skipped"] == 1 and report["skipped_list"][0]["shard"].endswith("cat")


def test_load_writes_a_page_with_a_timeline(folders, tmp_path):
    page = tmp_path / "load.html"
    words = ("load", folders, "--image", 32, "--batch", 4, "--step-time", "60ms", "--explain")
    done = run(*words, "--on-error-skip", "--html", page, check=False)
    assert done.returncode == 2  # Typed wrongly.
    done = run(*words, "--skip-errors", "--html", page)
    assert "=> " in done.stdout and f"wrote {page}" in done.stderr
    text = page.read_text()
    ElementTree.fromstring(text.split("\n", 1)[1])  # Well-formed.
    for title in ("Samples per second", "Who is busy", "Batches ready"):
        assert title in text


def test_a_page_never_replaces_what_is_read(shards):
    done = run("load", shards[0], "--html", shards[0], check=False)
    assert done.returncode == 2 and "that is the file to be read" in done.stderr
    assert shards[0].stat().st_size > 1000


def test_load_finds_the_threads(shards):
    done = run("load", *shards, "--batch", 10, "--tune", "--explain")
    assert "tuned" in done.stdout and "samples/s)" in done.stdout


def test_pack_tokens_is_python(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(BUILD / "python"))
    assert "--append-eod" in run("pack", "tokens", "--help").stdout
    monkeypatch.delenv("PYTHONPATH")
    done = run("pack", "tokens", "a.jsonl", "out", check=False)
    assert done.returncode == 1 and "needs the Python package" in done.stderr
    monkeypatch.setenv("PENSTOCK_PYTHON", str(tmp_path / "none"))
    done = run("pack", "tokens", "--help", check=False)
    assert done.returncode == 1 and "cannot run" in done.stderr
