"""`penstock cache` and what goes wrong: typed wrong, forbidden, full, read-only, interrupted."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time

import pytest
from cache_command import (
    MIB,
    PENSTOCK,
    entries_of,
    run,
    run_json,
    show,
)

pytest_plugins = ["cache_command", "s3_servers"]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["warm", "CACHE"], "SOURCE"),
        (["warm", "CACHE", "/nowhere/at/all"], "there is nothing at"),
        (["warm", "CACHE", "http://bucket/x"], "s3://BUCKET/KEY"),
        (["warm", "CACHE", "s3://buck*/x"], "name of a bucket"),
        (["warm", "CACHE", "DATA", "--quota", "4G"], "4G"),
        (["warm", "CACHE", "DATA", "--quota", "0"], "quota"),
        (["warm", "CACHE", "DATA", "--window", "5MiB"], "power of two"),
        (["warm", "CACHE", "DATA", "--bandwidth", "0B"], "--bandwidth"),
        (["warm", "CACHE", "DATA", "--jobs", "0"], "--jobs"),
        (["warm", "CACHE", "DATA", "--cache-dir", "CACHE"], "twice"),
        (["warm", "CACHE", "DATA/{0..9999999}"], "more than"),
        (["warm", "DATA", "DATA"], "is not a cache"),
        (["warm", "DATA/extra/labels", "DATA"], "is not a directory"),
        (["show", "CACHE"], "there is no cache at"),
        (["check", "DATA"], "there is no cache at"),
        (["clear", "CACHE", "--all"], "there is no cache at"),
        (["clear", "CACHE"], "--all"),
        (["clear", "CACHE", "--all", "--to", "1GiB"], "--all"),
        (["clear", "CACHE", "--to", "80%"], "80%"),
        (["polish", "CACHE"], "subcommand"),
        ([], "SUBCOMMAND"),
    ],
)
def test_bad_arguments_are_refused_with_the_reason(cache, data, arguments, expected):
    words = [w.replace("CACHE", str(cache)).replace("DATA", str(data)) for w in arguments]
    done = run(*words, check=False)
    # What is typed wrong, or what is missing.
    assert done.returncode == (1 if expected.startswith("there is no") else 2), done.stderr
    assert expected.lower() in done.stderr.lower()
    assert not cache.exists()


def test_a_cache_is_not_inside_its_source_nor_inside_another(tmp_path, cache, data):
    inside = run("warm", data / "cache", data, check=False)
    assert inside.returncode == 2
    assert "is a file of the cache itself" in inside.stderr
    assert run("warm", data / "cache", f"{data}/*.tar").returncode == 0  # Beside it is fine.
    run("warm", cache, data / "extra")
    nested = run("warm", cache / "more", data / "extra", check=False)
    assert nested.returncode == 2 and f"inside the cache {cache}" in nested.stderr
    (tmp_path / "alias").symlink_to(cache)
    for verb in (["warm", cache, data / "extra"], ["show", cache], ["check", cache]):
        twice = run(*verb, "--cache-dir", tmp_path / "alias", check=False)
        assert twice.returncode == 2 and "are the same" in twice.stderr


def test_a_new_cache_says_where_it_is(cache, data):
    first = run("warm", cache, data)
    assert f"made a new cache in {cache}, on the " in first.stdout
    assert "made a new cache" not in run("warm", cache, data).stdout
    shown = show(cache)
    point = pathlib.Path(shown["mount_point"])
    assert point.is_mount() and point in (cache, *cache.parents)
    assert f"the {shown['file_system']} that is mounted at {point}" in run("show", cache).stdout


def test_no_room_for_small_objects_is_not_other_data(cache, tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    for i in range(600):
        (folder / str(i)).write_bytes(b"x" * 100)
    done = run("warm", cache, folder, "--quota", "4MiB")
    assert "no room for" in done.stderr
    assert "hold other data" not in done.stderr


def test_a_cache_nearby_is_suggested(tmp_path, cache, data):
    run("warm", cache, data)
    assert f"did you mean {cache}?" in run("show", tmp_path, check=False).stderr
    assert f"did you mean {cache}?" in run("check", cache / "entries", check=False).stderr


def test_a_cache_of_a_newer_version(cache, data):
    run("warm", cache, data)
    marker = cache / "penstock-cache"
    marker.write_text(marker.read_text().replace("version 1", "version 2"))
    for arguments in (["warm", cache, data], ["show", cache], ["check", cache], ["clear", cache]):
        arguments += ["--all"] if arguments[0] == "clear" else []
        done = run(*arguments, check=False)
        assert done.returncode == 1
        assert "newer version of Penstock" in done.stderr
    assert len(entries_of(cache)) == 13


def test_help_has_examples():
    for words in ([], ["warm"], ["clear"]):
        assert "penstock cache warm /nvme" in run(*words, "--help").stdout or words == ["clear"]


def as_nobody(*arguments):
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", PENSTOCK, "cache"]
    return subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(name="open_tmp")
def fixture_open_tmp(tmp_path):
    """A place that others may look into; root only."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be somebody else")
    for path in (tmp_path, *tmp_path.parents):
        if path == pathlib.Path("/"):
            break
        if not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)
    if as_nobody("--help").returncode != 0:
        pytest.skip("nobody cannot run penstock here")
    return tmp_path


def test_a_directory_that_may_not_be_written(open_tmp, data):
    mine = open_tmp / "mine"
    mine.mkdir(mode=0o755)
    done = as_nobody("warm", mine / "cache", data)
    assert done.returncode == 1
    assert "Permission denied" in done.stderr


def test_looking_needs_no_right_to_write(open_tmp, cache, data):
    run("warm", cache, data)
    assert open_tmp in cache.parents
    assert as_nobody("show", cache).returncode == 1
    cache.chmod(0o755)  # As who shares it does.
    shown = as_nobody("show", cache)
    assert shown.returncode == 0, shown.stderr
    assert "13:" in shown.stdout
    checked = as_nobody("check", cache)
    assert checked.returncode == 0, checked.stderr
    cleared = as_nobody("clear", cache, "--all")
    assert cleared.returncode == 1
    assert "could not be removed" in cleared.stderr
    assert len(entries_of(cache)) == 13


@pytest.fixture(name="full_drive")
def fixture_full_drive(tmp_path):
    """A file system of 64 MiB, of which 24 are taken."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a file system")
    image, mount = tmp_path / "image", tmp_path / "drive"
    mount.mkdir()
    with open(image, "wb") as file:
        file.truncate(64 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", image, mount], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount here: " + mounted.stderr.strip())
    try:
        (mount / "ballast").write_bytes(bytes(24 * MIB))
        yield mount
    finally:
        for _ in range(50):
            if subprocess.run(["umount", mount], check=False).returncode == 0:
                break
            time.sleep(0.1)


def test_a_drive_that_is_nearly_full(full_drive, data):
    cache = full_drive / "cache"
    done = run("warm", cache, data, "--quota", "100%", "--floor", "4MiB")
    assert "no room for" in done.stderr
    free = os.statvfs(full_drive)
    assert free.f_bavail * free.f_frsize >= 4 * MIB - 64 * 1024
    report = run_json("check", cache)
    assert report["healthy"]
    assert report["directories"][0]["entries"] > 2


def test_a_drive_that_others_fill_up(full_drive, data):
    cache = full_drive / "cache"
    run("warm", cache, data / "train-000.tar", "--floor", "0")
    # Down to the last block, floor or not.
    with contextlib.suppress(OSError), open(full_drive / "more", "wb", buffering=0) as more:
        while True:
            more.write(bytes(64 * 1024))
    done = run("warm", cache, data, "--floor", "0", check=False)
    assert "no room for" in done.stderr or "cannot be used" in done.stderr
    assert run_json("check", cache)["healthy"]
    cleared = run_json("clear", cache, "--all")["directories"][0]
    assert cleared["left_entries"] == 0


# Against a real S3 server.


def test_what_can_never_fit_is_said_at_once(cache, data):
    begin = time.monotonic()
    done = run("warm", cache, data, "--quota", "1", check=False)
    assert time.monotonic() - begin < 5
    assert "no room" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_drive_that_became_read_only_is_named_and_costs_no_time(tmp_path, cache, data):
    drive = tmp_path / "drive"
    drive.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", drive], check=True)
    try:
        run("warm", drive / "c", data)
        subprocess.run(["mount", "-o", "remount,ro", drive], check=True)
        files = tmp_path / "files"
        files.mkdir()
        for i in range(200):
            (files / str(i)).write_bytes(b"x" * 100)
        begin = time.monotonic()
        done = run("warm", cache, files, "--cache-dir", drive / "c", check=False)
        assert time.monotonic() - begin < 20
        assert done.returncode == 1 and "1 of 2 cache directories cannot be used" in done.stderr
    finally:
        subprocess.run(["umount", drive], check=True)


def test_a_smaller_quota_holds_when_warming_ends(cache, data):
    first = run_json("warm", cache, data)
    assert first["used_bytes"] == run_json("show", cache)["directories"][0]["used_bytes"]
    again = run_json("warm", cache, data, "--quota", str(first["used_bytes"] // 2), check=False)
    assert again["used_bytes"] <= first["used_bytes"] // 2
    assert run_json("show", cache)["directories"][0]["used_bytes"] <= first["used_bytes"] // 2


def test_an_interrupt_while_listing_says_so(cache, silent_s3):
    silent, env = silent_s3
    command = [PENSTOCK, "cache", "warm", str(cache), "s3://bucket-one/x"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as warming:
        silent.accept()
        warming.send_signal(signal.SIGINT)
        out, _ = warming.communicate(timeout=20)
        assert warming.returncode == 130
        assert "interrupted before anything was found" in out
        assert "nothing to fetch" not in out
