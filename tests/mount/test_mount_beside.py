"""A volume that is mounted, shown elsewhere too: as it is at a moment, and as it was. One process
serves all of it.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from mount_tools import PENSTOCK, Volume, is_alive, is_mounted, needs_fuse

pytestmark = needs_fuse
pytest_plugins = ["mounted_volume"]


@pytest.fixture
def beside(volume, tmp_path):
    """Another place for the same volume."""
    other = Volume.__new__(Volume)
    other.home, other.name, other.folder = volume.home, volume.name, tmp_path / "beside"
    other.folder.mkdir()
    yield other
    other.close()


def eventually(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def now():
    """A time that lies between what was changed before and what will be after."""
    time.sleep(1.1)
    then = time.strftime("%Y-%m-%d %H:%M:%S")
    time.sleep(1.1)
    return then


def test_one_state_beside_the_live_one(volume, beside):
    owner = volume.mount()
    (volume.folder / "file").write_text("before")
    said = beside.mount("--ro")
    assert said["pid"] == owner["pid"] and said["read_only"] and said["version"] > 0
    assert said["directory"] == str(beside.folder) and said["volume"] == "train"
    assert said["log"] == owner["log"]
    (volume.folder / "file").write_text("after")
    (volume.folder / "new").touch()
    assert (beside.folder / "file").read_text() == "before"
    assert os.listdir(beside.folder) == ["file"]
    with pytest.raises(OSError, match="Read-only"):
        (beside.folder / "other").touch()
    status = beside.status()
    assert status["read_only"] and status["pid"] == owner["pid"]
    assert status["version"] == said["version"] and status["directory"] == str(beside.folder)
    assert status["others"] == [str(volume.folder)]
    assert volume.status()["others"] == [str(beside.folder)]
    assert not volume.status()["read_only"]


def test_what_was_deleted_is_copied_back(home, tmp_path):
    volume = Volume(home, tmp_path / "mnt").create("--retention", "forever")
    folder = tmp_path / "then"
    folder.mkdir()
    try:
        volume.mount()
        (volume.folder / "folder").mkdir()
        content = os.urandom(3_000_000)
        (volume.folder / "folder/file").write_bytes(content)
        volume.run("volume", "snapshot", volume.name, "kept")
        then = now()
        shutil.rmtree(volume.folder / "folder")
        volume.run("volume", "snapshot", volume.name, "gone")
        volume.run("mount", volume.name, folder, "--at", then)
        subprocess.run(["cp", "-a", folder / "folder", volume.folder], check=True)
        assert (volume.folder / "folder/file").read_bytes() == content
        volume.run("umount", folder)
        assert not is_mounted(folder)
        assert (volume.folder / "folder/file").read_bytes() == content
    finally:
        if is_mounted(folder):
            subprocess.run(["umount", "-l", folder], check=True)
        volume.close()


def test_what_it_shows_stays_though_all_of_it_is_collected(volume, beside):
    """Without retention nothing but the mount holds it."""
    volume.mount()
    content = os.urandom(2_000_000)
    (volume.folder / "file").write_bytes(content)
    beside.mount("--ro")
    (volume.folder / "file").unlink()
    volume.run("volume", "gc", volume.name)
    assert (beside.folder / "file").read_bytes() == content
    beside.umount()
    report = json.loads(volume.run("volume", "show", volume.name, "--json").stdout)
    assert report["mounted_at"] == str(volume.folder)


@pytest.mark.parametrize("how", ["penstock", "umount"])
def test_umount_ends_only_that_one(volume, beside, how):
    pid = volume.mount()["pid"]
    (volume.folder / "file").write_text("x")
    beside.mount("--ro")
    begin = time.monotonic()
    if how == "penstock":
        done = json.loads(beside.umount("--json").stdout)
        assert done["left_bytes"] == 0 and done["others"] == [str(volume.folder)]
    else:
        subprocess.run(["umount", beside.folder], check=True)
    assert time.monotonic() - begin < 10  # It does not wait for the process, which goes on.
    assert not is_mounted(beside.folder) and is_alive(pid)
    (volume.folder / "file").write_text("y")
    eventually(lambda: volume.status()["others"] == [])
    beside.mount("--ro")
    assert (beside.folder / "file").read_text() == "y"


def test_the_live_one_may_go_first_and_come_back(volume, beside, tmp_path):
    pid = volume.mount()["pid"]
    (volume.folder / "file").write_text("first")
    beside.mount("--ro")
    (volume.folder / "file").write_text("second")
    done = volume.umount()
    assert str(beside.folder) in done.stdout
    assert is_alive(pid) and (beside.folder / "file").read_text() == "first"
    shown = json.loads(volume.run("volume", "show", volume.name, "--json").stdout)
    assert shown["mounted_at"] == str(beside.folder) and shown["pending_bytes"] == 0
    # By the same process, writable.
    said = volume.mount("--noatime")
    assert said["pid"] == pid and not said["read_only"]
    assert (volume.folder / "file").read_text() == "second"
    (volume.folder / "file").write_text("third")
    assert (beside.folder / "file").read_text() == "first"
    # But once only.
    (tmp_path / "more").mkdir()
    done = volume.run("mount", volume.name, tmp_path / "more", check=False)
    assert done.returncode == 1 and f"penstock umount {volume.folder}" in done.stderr
    volume.umount()
    beside.umount()
    assert not is_alive(pid)
    assert volume.mount()["pid"] != pid
    assert (volume.folder / "file").read_text() == "third"


def test_what_others_put_is_seen_in_one_that_came_back(volume, beside, tmp_path):
    volume.mount()
    beside.mount("--ro")
    volume.umount()
    volume.mount()
    assert os.listdir(volume.folder) == []
    (tmp_path / "source").mkdir()
    (tmp_path / "source/put").write_text("x")
    volume.run("sync", tmp_path / "source", f"pen://{volume.name}")
    assert os.listdir(volume.folder) == ["put"] and os.listdir(beside.folder) == []


def test_sigterm_ends_them_all(volume, beside):
    pid = volume.mount()["pid"]
    (volume.folder / "file").write_text("x")
    beside.mount("--ro")
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not is_alive(pid))
    assert not is_mounted(volume.folder) and not is_mounted(beside.folder)
    volume.mount()
    assert (volume.folder / "file").read_text() == "x"


def test_sigterm_ends_them_though_they_are_used(volume, beside):
    pid = volume.mount()["pid"]
    (volume.folder / "file").write_text("x")
    beside.mount("--ro")
    with (
        contextlib.suppress(OSError),
        (beside.folder / "file").open(),
        (volume.folder / "more").open("w") as more,
    ):
        more.write("kept")
        more.flush()
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: not is_alive(pid), 30)
        assert not is_mounted(volume.folder) and not is_mounted(beside.folder)
    volume.mount()
    assert (volume.folder / "more").read_text() == "kept"


def test_one_inside_of_the_other(volume):
    """As people have it: the past in a folder of the present."""
    pid = volume.mount()["pid"]
    (volume.folder / "file").write_text("x")
    inner = volume.folder / "then"
    inner.mkdir()
    volume.run("mount", volume.name, inner, "--ro")
    assert (inner / "file").read_text() == "x"
    assert os.listdir(inner / "then") == []
    assert volume.umount(check=False).returncode == 1  # In use.
    with contextlib.suppress(OSError), (inner / "file").open():
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: not is_alive(pid), 30)
    assert not is_mounted(inner) and not is_mounted(volume.folder)


def test_killed_both_can_be_mounted_again(volume, beside):
    volume.mount()
    (volume.folder / "file").write_text("x")
    beside.mount("--ro")
    volume.kill()
    with pytest.raises(OSError):
        os.listdir(beside.folder)
    # In whichever order: the second is served by the first.
    pid = beside.mount("--ro")["pid"]
    assert (beside.folder / "file").read_text() == "x"
    assert volume.mount()["pid"] == pid
    assert (volume.folder / "file").read_text() == "x"
    (volume.folder / "file").write_text("y")
    assert (beside.folder / "file").read_text() == "x"


def test_a_time_of_which_nothing_is_left(volume, beside):
    volume.mount()
    done = volume.run("mount", volume.name, beside.folder, "--at", "2001-01-01", check=False)
    assert done.returncode == 1 and "--at" in done.stderr
    done = volume.run("mount", volume.name, beside.folder, "--at", "tomorrow", check=False)
    assert done.returncode == 2 and "tomorrow" in done.stderr
    assert not is_mounted(beside.folder)
    assert volume.status()["others"] == []


def test_a_mount_point_that_is_taken(volume, beside):
    volume.mount()
    beside.mount("--ro")
    done = volume.run("mount", volume.name, beside.folder, "--ro", check=False)
    assert done.returncode == 1 and "mounted already" in done.stderr
    done = volume.run("mount", volume.name, volume.folder, "--ro", check=False)
    assert done.returncode == 1 and "mounted already" in done.stderr
    done = volume.run("mount", volume.name, beside.folder / "missing", "--ro", check=False)
    assert done.returncode == 1 and "mkdir -p" in done.stderr


def test_delete_says_what_is_still_mounted(volume, beside):
    volume.mount()
    beside.mount("--ro")
    volume.umount()
    done = volume.run("volume", "delete", volume.name, "--yes", check=False)
    assert done.returncode == 1 and f"penstock umount {beside.folder}" in done.stderr


def test_options_of_the_mount_are_kept_to_and_others_named(volume, beside, tmp_path):
    volume.mount()
    (volume.folder / "file").touch()
    done = volume.run(
        "mount",
        volume.name,
        beside.folder,
        *("--ro", "--noexec", "--uid", "1234", "--memory", "512MiB"),
        *("--cache-dir", tmp_path / "cache"),
    )
    assert "--cache-dir, --memory" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "cache").exists()
    assert (beside.folder / "file").stat().st_uid == 1234
    with open("/proc/self/mounts", encoding="utf-8") as table:
        line = next(line for line in table if str(beside.folder) in line)
    assert line.startswith("train ") and "noexec" in line and " ro," in line


def test_in_the_foreground(volume, beside):
    owner = volume.mount()["pid"]
    environment = {**os.environ, "PENSTOCK_HOME": str(volume.home)}
    command = [PENSTOCK, "mount", volume.name, str(beside.folder), "--ro", "--foreground"]
    with subprocess.Popen(command, env=environment) as waiting:
        eventually(lambda: is_mounted(beside.folder))
        assert beside.status()["pid"] == owner
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(20) == 0
    assert not is_mounted(beside.folder) and is_alive(owner)
    with subprocess.Popen(command, env=environment) as waiting:
        eventually(lambda: is_mounted(beside.folder))
        subprocess.run(["umount", beside.folder], check=True)
        assert waiting.wait(20) == 0
    assert is_alive(owner)


def test_an_owner_that_does_not_answer(volume):
    command = ["python3", "-c", HOLD, volume.host]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout.readline() == b"held\n"
            done = volume.run("mount", volume.name, volume.folder, "--ro", check=False)
            assert done.returncode == 1 and done.stderr.startswith("penstock mount: ")
        finally:
            holder.kill()
    assert not is_mounted(volume.folder)
    volume.mount()


# The lock of a volume, held by something that answers nobody.
HOLD = """
import fcntl, sys, time
file = open(sys.argv[1] + "/owner.lock", "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_many_at_once(volume, tmp_path):
    """They come and go while the live one is written."""
    volume.mount()
    folders = [tmp_path / f"at-{i}" for i in range(8)]
    for folder in folders:
        folder.mkdir()
    try:
        for turn in range(3):
            (volume.folder / "file").write_text(str(turn))
            commands = [[PENSTOCK, "mount", volume.name, str(folder), "--ro"] for folder in folders]
            run_all(commands, volume)
            assert [(folder / "file").read_text() for folder in folders] == [str(turn)] * 8
            assert sorted(volume.status()["others"]) == [str(folder) for folder in folders]
            run_all([[PENSTOCK, "umount", str(folder)] for folder in folders], volume)
            eventually(lambda: volume.status()["others"] == [])
    finally:
        for folder in folders:
            if is_mounted(folder):
                subprocess.run(["umount", "-l", folder], check=True)


def run_all(commands, volume):
    environment = {**os.environ, "PENSTOCK_HOME": str(volume.home)}
    started = [subprocess.Popen(command, env=environment) for command in commands]
    assert [process.wait(60) for process in started] == [0] * len(commands)


def test_a_clone_beside_its_origin(volume, tmp_path):
    """Two volumes of one host: both can be written."""
    pid = volume.mount()["pid"]
    (volume.folder / "file").write_text("x")
    volume.run("volume", "clone", volume.name, "copy")
    clone = Volume(volume.home, tmp_path / "clone", "copy")
    try:
        assert clone.mount()["pid"] == pid
        (clone.folder / "file").write_text("y")
        assert (volume.folder / "file").read_text() == "x"
        shown = json.loads(volume.run("volume", "show", "copy", "--json").stdout)
        assert shown["mounted_at"] == str(clone.folder)
        clone.umount()
    finally:
        clone.close()
    assert (volume.folder / "file").read_text() == "x"
