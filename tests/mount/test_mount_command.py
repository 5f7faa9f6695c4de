"""`penstock mount` and `umount` as people run them: what they say, refuse, and leave behind."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from mount_tools import PENSTOCK, Volume, is_alive, is_mounted, needs_fuse

pytest_plugins = ["mounted_volume"]
pytestmark = needs_fuse


def test_what_is_written_is_there_after_a_remount(volume):
    said = volume.mount()
    assert said["volume"] == "train" and said["directory"] == str(volume.folder)
    assert not said["read_only"] and is_alive(said["pid"])
    (volume.folder / "folder").mkdir()
    (volume.folder / "folder/file").write_bytes(b"x" * 3_000_000)
    volume.umount()
    assert not is_mounted(volume.folder) and not is_alive(said["pid"])
    assert not list(volume.folder.iterdir())
    volume.mount()
    assert (volume.folder / "folder/file").read_bytes() == b"x" * 3_000_000


def test_what_close_returned_survives_kill_9(volume):
    volume.mount()
    (volume.folder / "kept").write_bytes(os.urandom(1_000_000))
    kept = (volume.folder / "kept").read_bytes()
    volume.kill()
    with pytest.raises(OSError):
        os.listdir(volume.folder)
    done = volume.run("mount", volume.name, volume.folder)  # Nothing has to be cleaned up before.
    assert "died" in done.stderr
    assert (volume.folder / "kept").read_bytes() == kept


def test_umount_of_a_dead_mount(volume):
    volume.mount()
    volume.kill()
    done = volume.umount()
    assert "died" in done.stdout
    assert not is_mounted(volume.folder)


def test_a_wrong_name_says_which_there_are(volume):
    done = volume.run("mount", "trian", volume.folder, check=False)
    assert done.returncode == 1
    assert "no volume 'trian'" in done.stderr and "train" in done.stderr
    assert not is_mounted(volume.folder)


def test_a_missing_or_wrong_mount_point(volume, tmp_path):
    done = volume.run("mount", volume.name, tmp_path / "none", check=False)
    assert done.returncode == 1 and "mkdir -p" in done.stderr
    (tmp_path / "file").touch()
    done = volume.run("mount", volume.name, tmp_path / "file", check=False)
    assert done.returncode == 2 and "no directory" in done.stderr


def test_a_second_mount_says_who_has_it(volume, tmp_path):
    volume.mount()
    (tmp_path / "other").mkdir()
    done = volume.run("mount", volume.name, tmp_path / "other", check=False)
    assert done.returncode == 1
    assert f"penstock umount {volume.folder}" in done.stderr
    done = volume.run("mount", volume.name, volume.folder, check=False)
    assert done.returncode == 1 and "mounted already" in done.stderr
    done = volume.run("volume", "delete", volume.name, "--yes", check=False)
    assert done.returncode == 1 and f"penstock umount {volume.folder}" in done.stderr


def test_a_busy_unmount_says_by_whom(volume):
    volume.mount()
    with (volume.folder / "open").open("w") as file:
        file.write("x")
        done = volume.umount(check=False)
        assert done.returncode == 1
        assert f"(pid {os.getpid()})" in done.stderr
    volume.umount()


def test_umount_of_what_is_not_mounted(volume):
    done = volume.umount(check=False)
    assert done.returncode == 1 and "no volume is mounted" in done.stderr


def test_umount_of_a_mount_that_does_not_answer(volume):
    pid = volume.mount()["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        done = volume.umount(check=False)
        assert done.returncode == 1 and "--force" in done.stderr
        volume.umount("--force", "--no-drain")
        assert not is_mounted(volume.folder)
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "options",
    [
        ["--memory", "1"],
        ["--cache-quota", "80%"],
        ["--noatime", "--strictatime"],
        ["--uid", "no-such-user"],
        ["-o", "no_such_option"],
        ["--writeback-max", "much"],
    ],
)
def test_bad_values_are_refused_before_anything_happens(volume, options):
    done = volume.run("mount", volume.name, volume.folder, *options, check=False)
    assert done.returncode == 2, done.stderr
    assert options[-2].lstrip("-") in done.stderr or options[-1] in done.stderr
    assert not is_mounted(volume.folder)


def test_sigterm_unmounts_cleanly(volume):
    pid = volume.mount()["pid"]
    (volume.folder / "file").write_text("x")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid) and not is_mounted(volume.folder)
    assert "unmounted" in volume.log()
    volume.mount()
    assert (volume.folder / "file").read_text() == "x"


def test_sigterm_ends_a_mount_that_is_in_use(volume):
    pid = volume.mount()["pid"]
    with contextlib.suppress(OSError), (volume.folder / "file").open("w") as file:
        file.write("kept")
        file.flush()
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while is_alive(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_alive(pid) and not is_mounted(volume.folder)
    volume.mount()
    assert (volume.folder / "file").read_text() == "kept"


def test_foreground(volume):
    environment = {**os.environ, "PENSTOCK_HOME": str(volume.home)}
    command = [PENSTOCK, "mount", volume.name, str(volume.folder), "--foreground"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as server:
        deadline = time.monotonic() + 20
        while not is_mounted(volume.folder) and time.monotonic() < deadline:
            time.sleep(0.02)
        (volume.folder / "file").write_text("x")
        assert volume.status()["pid"] == server.pid
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
    assert not is_mounted(volume.folder)


def test_plain_umount_works_too(volume):
    pid = volume.mount()["pid"]
    (volume.folder / "file").write_text("x")
    subprocess.run(["umount", volume.folder], check=True)
    deadline = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    volume.mount()
    assert (volume.folder / "file").read_text() == "x"


def test_umount_moves_what_waits_to_the_store(volume):
    volume.mount("--writeback-max-age", "1h")
    (volume.folder / "file").write_bytes(os.urandom(5_000_000))
    assert volume.status()["pending"]["content_bytes"] >= 5_000_000
    done = json.loads(volume.umount("--json").stdout)
    assert done["left_bytes"] == 0


def test_no_drain_leaves_it_and_says_so(volume):
    volume.mount("--writeback-max-age", "1h")
    content = os.urandom(5_000_000)
    (volume.folder / "file").write_bytes(content)
    done = volume.umount("--no-drain")
    assert "journal" in done.stdout
    volume.mount()
    assert (volume.folder / "file").read_bytes() == content


def test_read_only_is_one_state(volume):
    volume.mount()
    (volume.folder / "file").write_text("before")
    (volume.folder / "folder").mkdir()
    said = volume.remount("--ro")
    assert said["read_only"] and said["version"] > 0
    assert (volume.folder / "file").read_text() == "before"
    for change in (
        lambda: (volume.folder / "file").write_text("after"),
        lambda: (volume.folder / "new").touch(),
        lambda: (volume.folder / "file").unlink(),
        lambda: os.chmod(volume.folder / "file", 0o600),
    ):
        with pytest.raises(OSError, match="Read-only"):
            change()
    assert sorted(os.listdir(volume.folder)) == ["file", "folder"]


def test_the_past_is_there_as_it_was(home, tmp_path):
    volume = Volume(home, tmp_path / "mnt").create("--retention", "forever")
    try:
        volume.mount()
        (volume.folder / "file").write_text("first")
        volume.remount()
        time.sleep(1.1)
        then = time.strftime("%Y-%m-%d %H:%M:%S")
        time.sleep(1.1)
        (volume.folder / "file").write_text("second")
        (volume.folder / "more").touch()
        volume.remount("--at", then)
        assert (volume.folder / "file").read_text() == "first"
        assert os.listdir(volume.folder) == ["file"]
        volume.umount()
        done = volume.run("mount", "train", volume.folder, "--at", "2001-01-01", check=False)
        assert done.returncode == 1 and "--at" in done.stderr
    finally:
        volume.close()


def test_squash(volume):
    volume.mount()
    (volume.folder / "file").touch()
    volume.remount("--uid", "1234", "--gid", "5678")
    info = (volume.folder / "file").stat()
    assert (info.st_uid, info.st_gid) == (1234, 5678)
    (volume.folder / "new").touch()
    with pytest.raises(PermissionError):
        os.chown(volume.folder / "file", 1, 1)
    volume.remount()
    assert (volume.folder / "file").stat().st_uid == 0
    assert (volume.folder / "new").stat().st_uid == 1234


def test_noexec(volume):
    volume.mount("--noexec")
    (volume.folder / "program").write_text("#!/bin/sh\n")
    (volume.folder / "program").chmod(0o755)
    with pytest.raises(PermissionError):
        subprocess.run([volume.folder / "program"], check=True)


@pytest.mark.parametrize("program", ["mount.penstock", "mount.fuse.penstock", "penstock"])
def test_as_mount_8_calls_it(volume, program):
    options = ["-o", "rw,noatime,_netdev,x-systemd.automount,memory=128MiB"]
    if program != "penstock":  # That is how mount.fuse3 does it.
        options += ["-n", "-t", "fuse.penstock"]
    helper = str(pathlib.Path(PENSTOCK).parent / program)
    volume.run(volume.name, volume.folder, *options, program=helper)
    with open("/proc/self/mounts", encoding="utf-8") as table:
        line = next(line for line in table if str(volume.folder) in line)
    assert line.startswith("train ") and "fuse.penstock" in line and "noatime" in line
    (volume.folder / "file").write_text("x")


def test_statfs(home, tmp_path):
    volume = Volume(home, tmp_path / "mnt").create("--quota", "1GiB")
    try:
        volume.mount()
        space = os.statvfs(volume.folder)
        assert space.f_frsize * space.f_blocks == 1 << 30 and space.f_namemax == 255
        (volume.folder / "file").write_bytes(bytes(64 << 20))
        left = os.statvfs(volume.folder)
        assert (space.f_bfree - left.f_bfree) * space.f_frsize == 64 << 20
    finally:
        volume.close()
