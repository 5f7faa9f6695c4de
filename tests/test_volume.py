"""`penstock volume` and pen://, as people use them."""

import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PENSTOCK = os.environ.get("PENSTOCK_BIN", str(ROOT / "build/release/src/cli/penstock"))


class Volumes:
    def __init__(self, home):
        self.home = home
        self.env = {**os.environ, "PENSTOCK_HOME": str(home)}

    def start(self, *arguments):
        command = [PENSTOCK, *map(str, arguments)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.env, stdout=pipe, stderr=pipe, text=True)

    def run(self, *arguments, code=0):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, (arguments, out, err)
        return out if code == 0 else out + err

    def json(self, *arguments, code=0):
        return json.loads(self.run(*arguments, "--json", code=code))


@pytest.fixture
def volumes(tmp_path):
    return Volumes(tmp_path / "home")


def make_files(folder, count, seed=1):
    """Files of many sizes, in some directories; their hashes by name."""
    dice = random.Random(seed)
    hashes = {}
    for i in range(count):
        name = f"d{i % 5}/f{i:04}"
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = dice.randbytes(dice.choice([0, 10, 5000, 300_000, 2_000_000]))
        path.write_bytes(content)
        hashes[name] = hashlib.sha256(content).hexdigest()
    return hashes


def hashes_of(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_volume_is_made_listed_shown_changed_and_deleted(volumes):
    assert "now: penstock mount train" in volumes.run(
        "volume", "create", "train", "--preset", "shards"
    )
    assert volumes.run("volume", "list") == "train\n"
    shown = volumes.json("volume", "show", "train")
    assert shown["block_bytes"] == 4 << 20
    assert shown["compression"] == "lz4"
    assert shown["files"] == 1
    volumes.run(
        "volume", "set", "train", "--compression", "zstd", "--quota", "1GiB", "--retention", "30d"
    )
    shown = volumes.json("volume", "show", "train")
    assert (shown["compression"], shown["quota_bytes"]) == ("zstd", 1 << 30)
    assert shown["retention_seconds"] == 30 * 24 * 3600
    assert "--yes" in volumes.run("volume", "delete", "train", code=2)
    volumes.run("volume", "delete", "train", "--yes")
    assert volumes.json("volume", "list")["volumes"] == []
    assert not (volumes.home / "volumes" / "train").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["create", "a/b/../c#d#e", "--block-size", "3MiB"], 2, "power of two"),
        (["create", "train"], 1, "there is a volume 'train' already"),
        (["create", "x", "--preset", "nothing"], 2, "no preset 'nothing'"),
        (["create", "x", "--compression", "gzip"], 2, "gzip"),
        (["create", "-x"], 2, ""),
        (["create", ".x"], 2, "no name for a volume"),
        (["show", "trian"], 1, "there are: train"),
        (["show", "/nowhere/at/all"], 1, "there is no volume in"),
        (["set", "train", "--retention", "soon"], 2, "--retention"),
        (["clone", "train", "copy", "--at", "yesterday"], 2, "is no time"),
        (["clone", "train", "copy", "--at", "2020-01-01"], 1, "nothing is left of 2020-01-01"),
        (["clone", "train", "train"], 1, "already"),
    ],
)
def test_what_cannot_be_done_is_said(volumes, arguments, code, message):
    volumes.run("volume", "create", "train")
    assert message in volumes.run("volume", *arguments, code=code)
    assert volumes.json("volume", "list")["volumes"] == ["train"]


def test_what_is_copied_in_comes_out_again(volumes, tmp_path):
    volumes.run("volume", "create", "train")
    hashes = make_files(tmp_path / "in", 60)
    volumes.run("sync", tmp_path / "in", "pen://train/data")
    shown = volumes.json("volume", "show", "train")
    assert shown["files"] > 60
    checked = volumes.json("volume", "fsck", "train")
    assert (checked["files"], checked["findings"]) == (60, [])
    volumes.run("sync", "pen://train/data", tmp_path / "out")
    assert hashes_of(tmp_path / "out") == hashes
    # Nothing is copied a second time.
    again = volumes.run("sync", tmp_path / "in", "pen://train/data", "--json")
    assert json.loads(again.splitlines()[-1])["summary"]["copied"] == 0


def test_clones_and_snapshots_keep_what_was(volumes, tmp_path):
    volumes.run("volume", "create", "train")
    hashes = make_files(tmp_path / "in", 20)
    volumes.run("sync", tmp_path / "in", "pen://train/data")
    volumes.run("volume", "snapshot", "train", "full")
    volumes.run("volume", "clone", "train", "other")
    (tmp_path / "empty").mkdir()
    volumes.run("sync", tmp_path / "empty", "pen://train/data", "--delete")
    volumes.run("volume", "gc", "train")
    assert [one["name"] for one in volumes.json("volume", "snapshot", "train")["snapshots"]] == [
        "full"
    ]
    volumes.run("sync", "pen://other/data", tmp_path / "out")
    assert hashes_of(tmp_path / "out") == hashes
    volumes.run("volume", "delete", "train", "--yes")
    volumes.run("sync", "pen://other/data", tmp_path / "again")
    assert hashes_of(tmp_path / "again") == hashes
    volumes.run("volume", "snapshot", "other", "none", "--remove", code=1)


def test_garbage_is_given_back(volumes, tmp_path):
    volumes.run("volume", "create", "train", "--compression", "none")
    make_files(tmp_path / "in", 40)
    volumes.run("sync", tmp_path / "in", "pen://train/data")
    volumes.run("volume", "gc", "train")
    (tmp_path / "empty").mkdir()
    volumes.run("sync", tmp_path / "empty", "pen://train/data", "--delete")
    volumes.run("volume", "gc", "train")
    shown = volumes.json("volume", "show", "train")
    assert (shown["stored_bytes"], shown["live_bytes"], shown["pending_bytes"]) == (0, 0, 0)


def test_damage_is_found_and_its_files_are_named(volumes, tmp_path):
    volumes.run("volume", "create", "train", "--compression", "none")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_bytes(os.urandom(3_000_000))
    volumes.run("sync", tmp_path / "in", "pen://train")
    blocks = volumes.home / "volumes/train/blocks"
    objects = [
        path for path in blocks.rglob("*") if path.is_file() and path.stat().st_size > 1_000_000
    ]
    assert len(objects) == 1
    with open(objects[0], "r+b") as file:
        file.seek(1_500_000)
        old = file.read(1)
        file.seek(1_500_000)
        file.write(bytes([old[0] ^ 1]))
    checked = volumes.json("volume", "fsck", "train", code=1)
    assert [one["path"] for one in checked["findings"]] == ["/file"]
    assert "corrupt" in checked["findings"][0]["what"]
    volumes.run("sync", "pen://train", tmp_path / "out", code=1)
    assert not (tmp_path / "out/file").exists()
    os.unlink(objects[0])
    checked = volumes.json("volume", "fsck", "train", "--quick", code=1)
    assert checked["findings"][0]["path"] == "/file"


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment_it_goes_on(volumes, tmp_path, seed):
    volumes.run("volume", "create", "train")
    hashes = make_files(tmp_path / "in", 120, seed)
    dice = random.Random(seed)
    for _ in range(4):
        process = volumes.start("sync", tmp_path / "in", "pen://train")
        time.sleep(dice.uniform(0.02, 0.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert volumes.json("volume", "fsck", "train")["findings"] == []
    volumes.run("sync", tmp_path / "in", "pen://train")
    volumes.run("sync", "pen://train", tmp_path / "out")
    assert hashes_of(tmp_path / "out") == hashes


def test_two_processes_use_a_volume_at_once(volumes, tmp_path):
    """Neither knows which of them has it."""
    volumes.run("volume", "create", "train")
    hashes = {}
    for name in ("a", "b", "c"):
        made = make_files(tmp_path / name, 60, seed=ord(name))
        hashes |= {f"{name}/{file}": digest for file, digest in made.items()}
    started = [
        volumes.start("sync", tmp_path / name, f"pen://train/{name}") for name in ("a", "b", "c")
    ]
    # Commands as well, whoever has it just then.
    for _ in range(5):
        assert volumes.json("volume", "show", "train")["name"] == "train"
    for process in started:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, (out, err)
    assert volumes.json("volume", "fsck", "train")["findings"] == []
    volumes.run("sync", "pen://train", tmp_path / "out")
    assert hashes_of(tmp_path / "out") == hashes
    assert not (volumes.home / "volumes/train/control").exists()


@pytest.mark.parametrize("seed", range(3))
def test_when_the_owner_is_killed_the_others_go_on(volumes, tmp_path, seed):
    volumes.run("volume", "create", "train")
    dice = random.Random(seed)
    mine = make_files(tmp_path / "mine", 120, seed)
    make_files(tmp_path / "other", 200, seed + 10)
    owner = volumes.start("sync", tmp_path / "other", "pen://train/other")
    time.sleep(dice.uniform(0.02, 0.2))
    process = volumes.start("sync", tmp_path / "mine", "pen://train/mine")
    time.sleep(dice.uniform(0.02, 0.3))
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    out, err = process.communicate(timeout=120)
    # All but an upload that was under way: that may be an error, which says what to do.
    assert process.returncode == 0 or "ended" in err or "try again" in err, (out, err)
    volumes.run("sync", tmp_path / "mine", "pen://train/mine")
    volumes.run("sync", "pen://train/mine", tmp_path / "out")
    assert hashes_of(tmp_path / "out") == mine
    assert volumes.json("volume", "fsck", "train")["findings"] == []


def test_what_waits_says_since_when(volumes, tmp_path):
    volumes.run("volume", "create", "train")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_bytes(os.urandom(1_000_000))
    process = volumes.start("sync", tmp_path / "in", "pen://train")
    process.communicate()
    shown = volumes.json("volume", "show", "train")
    assert shown["pending_bytes"] == 0 and shown["pending_since"] is None
    assert shown["mounted_at"] is None
    assert "waits       nothing" in volumes.run("volume", "show", "train")


def test_an_owner_that_does_not_answer_is_no_riddle(volumes, tmp_path):
    volumes.run("volume", "create", "train")
    make_files(tmp_path / "in", 300)
    owner = volumes.start("sync", tmp_path / "in", "pen://train")
    while not (volumes.home / "volumes/train/control").exists():
        assert owner.poll() is None
    owner.send_signal(signal.SIGSTOP)
    try:
        assert "does not answer" in volumes.run("volume", "show", "train", code=1)
    finally:
        owner.send_signal(signal.SIGCONT)
    owner.communicate()
    assert owner.returncode == 0
    assert volumes.json("volume", "show", "train")["files"] > 300
