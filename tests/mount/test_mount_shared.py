"""A mounted volume that other processes use too, through its owner: `penstock volume`, pen://."""

import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import time

import pytest
from mount_tools import PENSTOCK, is_alive, needs_fuse

pytest_plugins = ["mounted_volume"]
pytestmark = needs_fuse


@pytest.fixture
def source(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def sync(volume, *arguments, check=True):
    return volume.run("sync", *arguments, check=check)


def show(volume):
    return json.loads(volume.run("volume", "show", volume.name, "--json").stdout)


def test_what_is_put_is_seen_at_once_whatever_was_seen_before(volume, source):
    volume.mount()
    folder = volume.folder / "x"
    folder.mkdir()
    (folder / "old").write_bytes(b"before")
    # The kernel has it all: content, attributes, that a name is not there, and the listing.
    assert (folder / "old").read_bytes() == b"before"
    assert not (folder / "new").exists() and not (volume.folder / "y").exists()
    assert os.listdir(folder) == ["old"]
    before = os.stat(folder)
    (source / "old").write_bytes(b"after, and longer")
    (source / "new").write_bytes(b"new")
    (source / "deep").mkdir()
    (source / "deep/file").write_bytes(b"deep")
    sync(volume, source, "pen://train/x")
    assert (folder / "old").read_bytes() == b"after, and longer"
    assert os.stat(folder / "old").st_size == len(b"after, and longer")
    assert (folder / "new").read_bytes() == b"new"
    assert (folder / "deep/file").read_bytes() == b"deep"
    assert sorted(os.listdir(folder)) == ["deep", "new", "old"]
    after = os.stat(folder)
    assert after.st_mtime_ns > before.st_mtime_ns and after.st_nlink == before.st_nlink + 1
    sync(volume, source, "pen://train/y")
    assert (volume.folder / "y/deep/file").read_bytes() == b"deep"


def test_what_is_removed_is_gone_at_once(volume, source):
    volume.mount()
    (source / "a").write_bytes(b"a")
    (source / "b").write_bytes(b"b")
    sync(volume, source, "pen://train/x")
    assert sorted(os.listdir(volume.folder / "x")) == ["a", "b"]
    with (volume.folder / "x/a").open("rb") as still_open:
        (source / "a").unlink()
        sync(volume, source, "pen://train/x", "--delete")
        assert os.listdir(volume.folder / "x") == ["b"]
        with pytest.raises(FileNotFoundError):
            os.stat(volume.folder / "x/a")
        assert still_open.read() == b"a"
        assert os.fstat(still_open.fileno()).st_nlink == 0


def test_what_the_mount_wrote_is_read_through_the_owner(volume, tmp_path):
    volume.mount("--writeback-max-age", "1h")
    content = os.urandom(3_000_000)
    (volume.folder / "d").mkdir()
    (volume.folder / "d/file").write_bytes(content)
    sync(volume, "pen://train/d", tmp_path / "out")
    assert (tmp_path / "out/file").read_bytes() == content
    (volume.folder / "d/file").write_bytes(b"other")
    (volume.folder / "d/file").rename(volume.folder / "d/renamed")
    sync(volume, "pen://train/d", tmp_path / "out", "--delete")
    assert os.listdir(tmp_path / "out") == ["renamed"]
    assert (tmp_path / "out/renamed").read_bytes() == b"other"


def test_a_file_that_is_open_keeps_what_it_was(volume, source):
    volume.mount()
    (volume.folder / "x").mkdir()
    (volume.folder / "x/file").write_bytes(b"1" * 100_000)
    with (volume.folder / "x/file").open("r+b") as file:
        assert file.read(10) == b"1" * 10
        file.seek(0)
        file.write(b"mine")  # The kernel has not sent it yet.
        (source / "file").write_bytes(b"2" * 50_000)
        sync(volume, source, "pen://train/x")
        assert (volume.folder / "x/file").read_bytes() == b"2" * 50_000
        file.flush()
        file.seek(0)
        assert file.read(5) == b"mine1"
    assert (volume.folder / "x/file").read_bytes() == b"2" * 50_000


def test_listing_while_files_are_put_never_shows_half_of_one(volume, source):
    """A kernel that learnt of a file while it was put would keep the size that it had then."""
    volume.mount()
    (volume.folder / "x").mkdir()
    for i in range(40):
        (source / f"f{i:02}").write_bytes(bytes([i]) * 400_000)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(sync, volume, source, "pen://train/x")
        while not done.done():
            for entry in os.scandir(volume.folder / "x"):
                assert not entry.name.startswith(".penstock-tmp-")
                with contextlib.suppress(FileNotFoundError):
                    assert entry.stat().st_size == 400_000
        done.result()
    for i in range(40):
        assert (volume.folder / f"x/f{i:02}").read_bytes() == bytes([i]) * 400_000


def test_commands_work_on_it(volume, source):
    pid = volume.mount("--writeback-max-age", "1h")["pid"]
    (volume.folder / "file").write_bytes(os.urandom(2_000_000))
    shown = show(volume)
    assert shown["mounted_at"] == str(volume.folder)
    assert shown["bytes"] == 2_000_000 and shown["pending_bytes"] >= 2_000_000
    assert abs(shown["pending_since"] - time.time()) < 60
    assert str(volume.folder) in volume.run("volume", "show", volume.name).stdout
    volume.run("volume", "set", volume.name, "--quota", "3MiB")
    with pytest.raises(OSError, match="No space"):
        (volume.folder / "more").write_bytes(bytes(4_000_000))
    volume.run("volume", "set", volume.name, "--quota", "0")
    volume.run("volume", "snapshot", volume.name, "before")
    (volume.folder / "file").unlink()
    listed = json.loads(volume.run("volume", "snapshot", volume.name, "--json").stdout)
    assert [one["name"] for one in listed["snapshots"]] == ["before"]
    volume.run("volume", "snapshot", volume.name, "before", "--remove")
    volume.run("volume", "clone", volume.name, "other")
    checked = json.loads(volume.run("volume", "fsck", volume.name, "--json").stdout)
    assert checked["findings"] == []
    volume.run("volume", "gc", volume.name, "--dry-run")
    volume.run("volume", "gc", volume.name)
    done = volume.run("volume", "delete", volume.name, "--yes", check=False)
    assert done.returncode == 1 and f"penstock umount {volume.folder}" in done.stderr
    assert is_alive(pid)
    (volume.folder / "still").write_text("fine")


def test_a_clone_can_be_filled_while_its_origin_is_mounted(volume, source):
    volume.mount()
    (volume.folder / "file").write_bytes(b"origin")
    volume.run("volume", "clone", volume.name, "other")
    (source / "file").write_bytes(b"clone")
    sync(volume, source, "pen://other")
    assert (volume.folder / "file").read_bytes() == b"origin"


def test_a_client_that_is_killed_leaves_nothing_half(volume, source):
    volume.mount()
    for i in range(200):
        (source / f"f{i:03}").write_bytes(os.urandom(300_000))
    environment = {**os.environ, "PENSTOCK_HOME": str(volume.home)}
    with subprocess.Popen(
        [PENSTOCK, "sync", str(source), "pen://train/x"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as client:
        while not (volume.folder / "x").exists() or len(os.listdir(volume.folder / "x")) < 5:
            assert client.poll() is None
        client.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20  # What was under way is dropped soon.
    while any(name.startswith(".penstock") for name in os.listdir(volume.folder / "x")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for name in os.listdir(volume.folder / "x"):
        assert (volume.folder / "x" / name).read_bytes() == (source / name).read_bytes()
    volume.umount()
    volume.mount()  # Nothing hidden was left either.
    assert not [n for n in os.listdir(volume.folder / "x") if n.startswith(".penstock")]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_mount_ends_the_client_goes_on_by_itself(volume, source, tmp_path, how):
    pid = volume.mount()["pid"]
    (volume.folder / "x").mkdir()
    for i in range(60):
        (source / f"f{i:02}").write_bytes(os.urandom(300_000))
    environment = {**os.environ, "PENSTOCK_HOME": str(volume.home)}
    with subprocess.Popen(
        [PENSTOCK, "sync", str(source), "pen://train/x"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        while len(os.listdir(volume.folder / "x")) < 5 and client.poll() is None:
            pass
        os.kill(pid, how)
        said = client.communicate(timeout=100)
    if (
        client.returncode != 0
    ):  # What was under way may have failed, and says that it can be retried.
        assert "ended" in said[1] or "try again" in said[1], said
    while is_alive(pid):
        time.sleep(0.01)
    sync(volume, source, "pen://train/x")
    sync(volume, "pen://train/x", tmp_path / "out")
    for i in range(60):
        name = f"f{i:02}"
        assert (tmp_path / "out" / name).read_bytes() == (source / name).read_bytes()


def test_an_interrupted_check_stops_in_the_owner_too(volume):
    volume.mount()
    for i in range(2000):
        (volume.folder / f"f{i}").write_bytes(b"x")
    environment = {**os.environ, "PENSTOCK_HOME": str(volume.home)}
    with subprocess.Popen(
        [PENSTOCK, "volume", "fsck", "train"], env=environment, stdout=subprocess.DEVNULL
    ) as client:
        time.sleep(0.05)
        client.send_signal(signal.SIGINT)
        assert client.wait(30) in (0, 130)
    assert show(volume)["files"] == 2001
