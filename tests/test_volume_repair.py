"""What can be mended of a volume, and what is only told."""

import os
import pathlib
import shutil

import pytest
from test_volume import Volumes


@pytest.fixture
def volumes(tmp_path):
    return Volumes(tmp_path / "home")


@pytest.fixture
def train(volumes, tmp_path):
    """A volume with one file whose content is in one object: that object's file."""
    volumes.run("volume", "create", "train", "--compression", "none")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_bytes(os.urandom(300_000))
    volumes.run("sync", tmp_path / "in", "pen://train")
    (content,) = objects_of(volumes)
    return content


def objects_of(volumes):
    blocks = volumes.home / "volumes/train/blocks"
    return [path for path in blocks.rglob("*%2F*") if path.is_file()]


def plant_orphan(volumes, content):
    """As a crash leaves one: in the store, and unknown to the database."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    pending = volumes.home / "volumes/train/blocks" / f"pending-{boot}"
    pending.mkdir(exist_ok=True)
    uuid = content.name.split("%2F")[0]
    shutil.copyfile(content, pending / f"{uuid}%2F00000001-0000ffff")


def test_what_nothing_refers_to_is_removed(volumes, train):
    plant_orphan(volumes, train)
    assert volumes.json("volume", "fsck", "train")["findings"] == []
    assert len(objects_of(volumes)) == 2
    text = volumes.run("volume", "fsck", "train", "--repair")
    assert "repaired: deleted 1 objects that nothing refers to" in text
    assert "all is well" in text
    assert objects_of(volumes) == [train]
    again = volumes.json("volume", "fsck", "train", "--repair")
    assert again["repaired"] == [] and again["findings"] == []


def test_a_file_with_damage_is_named_and_nothing_is_deleted(volumes, train, tmp_path):
    plant_orphan(volumes, train)
    kept = tmp_path / "kept"
    shutil.move(train, kept)
    for _ in range(2):
        checked = volumes.json("volume", "fsck", "train", "--repair", code=1)
        assert {one["path"] for one in checked["findings"]} == {"/file"}
        assert checked["repaired"] == []
        assert len(objects_of(volumes)) == 1
    shutil.move(kept, train)
    assert volumes.json("volume", "fsck", "train", "--repair")["findings"] == []
    volumes.run("sync", "pen://train", tmp_path / "out")
    assert (tmp_path / "out/file").read_bytes() == (tmp_path / "in/file").read_bytes()
