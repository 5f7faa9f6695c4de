"""Data on a network mount: what that costs is said, and a cache keeps it."""

import os
import pathlib
import subprocess
import sys
import warnings

import penstock
import pytest
from conftest import BUILD

FIELDS = {"label": penstock.Int("cls")}
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="mounts a file system"
)


def labels(loader):
    return [int(x) for batch in loader for x in batch["label"]]


@pytest.fixture
def mount(shards, tmp_path):
    """The shards, as if they were far away."""
    far, folder = tmp_path / "far", tmp_path / "mount"
    far.mkdir()
    folder.mkdir()
    for path in shards:
        path.rename(far / path.name)
    script = pathlib.Path(__file__).with_name("fuse_mount.py")
    command = [sys.executable, str(script), str(far), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        if server.stdout.readline() != b"mounted\n":
            pytest.skip(f"no FUSE here: {server.stderr.read()}")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", folder], check=True)
            server.kill()


def test_without_a_cache_it_says_what_it_costs_and_how_to_save_it(mount, tmp_path):
    with pytest.warns(
        UserWarning, match=r"over the network.*every epoch reads .*KiB again"
    ) as said:
        loader = penstock.Loader(str(mount / "*.tar"), FIELDS, batch_size=10)
    assert len(said) == 1 and f"{mount}/train-000000.tar" in str(said[0].message)
    assert "cache_dir=" in str(said[0].message)
    assert labels(loader) == list(range(100))
    with pytest.warns(UserWarning, match=r"KiB again for this rank"):
        penstock.Loader(str(mount / "*.tar"), FIELDS, batch_size=10, world_size=2)
    command = [str(BUILD / "src/cli/penstock"), "load", str(mount), "--int", "cls", "--batch", "5"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert run.stderr.count("over the network") == 1 and "--cache-dir" in run.stderr


def test_with_a_cache_the_second_epoch_needs_the_mount_no_more(mount, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = penstock.Loader(
            str(mount / "*.tar"), FIELDS, batch_size=10, cache_dir=str(tmp_path / "cache")
        )
    assert labels(loader) == list(range(100))
    before = loader.report()["cache"]["source_bytes"]
    assert before > 0
    assert labels(loader) == list(range(100))
    assert loader.report()["cache"]["source_bytes"] == before


def test_a_local_folder_says_nothing(shards):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        penstock.Loader(str(shards[0].parent), FIELDS, batch_size=10)
