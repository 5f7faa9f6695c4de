"""`penstock volume recover`: a journal that cannot be replayed is saved, and never forced."""

import json
import os
import time

import pytest
from mount_tools import Volume, needs_fuse
from test_volume import Volumes


@pytest.fixture
def volumes(tmp_path):
    return Volumes(tmp_path / "home")


def operations_in(folder):
    return [json.loads(line) for line in (folder / "operations.jsonl").read_text().splitlines()]


def test_the_journal_of_another_volume_is_saved_and_put_aside(volumes, tmp_path):
    content = os.urandom(200_000)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_bytes(content)
    for name in ("one", "two"):
        volumes.run("volume", "create", name)
        volumes.run("sync", tmp_path / "in", f"pen://{name}")
    homes = volumes.home / "volumes"
    (homes / "one/journal").rename(tmp_path / "right")
    (homes / "two/journal").rename(homes / "one/journal")
    told = volumes.run("volume", "fsck", "one", code=1)
    assert "another volume" in told
    assert f"penstock volume recover {homes / 'one'} --to DIR" in told
    # Saved, and nothing changed: it does not open.
    saved = volumes.json("volume", "recover", "one", "--to", tmp_path / "saved")
    assert saved["operations"] == len(operations_in(tmp_path / "saved")) > 0
    assert saved["set_aside"] == ""
    (file,) = (path for path in (tmp_path / "saved/inodes").rglob("*") if path.is_file())
    assert file.read_bytes() == content
    assert "another volume" in volumes.run("volume", "fsck", "one", code=1)
    # The directory is not mixed with what is there.
    told = volumes.run("volume", "recover", "one", "--to", tmp_path / "saved", code=1)
    assert "not empty" in told
    told = volumes.run("volume", "recover", "one", "--to", tmp_path / "again", "--discard")
    assert "journal.aside-1" in told and "penstock volume fsck one" in told
    assert (homes / "one/journal.aside-1").is_dir()
    assert volumes.json("volume", "fsck", "one")["findings"] == []
    volumes.run("sync", "pen://one", tmp_path / "out")
    assert (tmp_path / "out/file").read_bytes() == content


def make_journal(volume, contents):
    """Files that are in the journal, and not committed: it is killed before it comes to that."""
    for _ in range(10):
        begin = time.monotonic()
        volume.mount()
        for name, content in contents.items():
            with (volume.folder / name).open("wb") as file:
                file.write(content)
                os.fsync(file.fileno())
        volume.kill()
        took = time.monotonic() - begin
        volume.umount()
        if took < 4:
            return
        volume.mount()
        for name in contents:
            (volume.folder / name).unlink()
        volume.umount()
    pytest.skip("this machine is too slow for it")


@needs_fuse
def test_damage_in_the_middle(tmp_path):
    volume = Volume(tmp_path / "home", tmp_path / "mnt").create()
    try:
        contents = {f"file-{i}": os.urandom(5_000) for i in range(8)}
        make_journal(volume, contents)
        (segment,) = (volume.host / "journal").glob("segment-*")
        at = segment.read_bytes().index(contents["file-4"][:64])
        with segment.open("r+b") as file:
            file.seek(at)
            file.write(b"damage")
        told = volume.run("mount", volume.name, volume.folder, check=False)
        assert told.returncode == 1
        assert "lost records" in told.stderr and "penstock volume recover" in told.stderr
        saved = tmp_path / "saved"
        # Not all could be saved, and it says what.
        told = volume.run("volume", "recover", volume.name, "--to", saved, check=False)
        assert told.returncode == 1 and "cannot be read" in told.stdout
        for i in range(4):
            name = f"file-{i}"
            assert (saved / "files" / volume.name / name).read_bytes() == contents[name]
        numbered = [path.read_bytes() for path in (saved / "inodes").rglob("*") if path.is_file()]
        assert sorted(numbered) == sorted(contents[f"file-{i}"] for i in range(5, 8))
        names = [one["name"] for one in operations_in(saved) if one["operation"] == "create"]
        assert set(names) >= contents.keys()
        again = tmp_path / "again"
        volume.run("volume", "recover", volume.name, "--to", again, "--discard", check=False)
        volume.mount()
        assert os.listdir(volume.folder) == []
        volume.umount()
        assert volume.run("volume", "fsck", volume.name).returncode == 0
    finally:
        volume.close()


def test_what_makes_no_sense_is_refused(volumes, tmp_path):
    volumes.run("volume", "create", "one")
    assert "--to" in volumes.run("volume", "recover", "one", code=2)
    volumes.run("volume", "recover", "none", "--to", tmp_path / "saved", code=1)
