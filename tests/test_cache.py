"""`penstock cache` as people run it: warm, show, check, clear."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from cache_command import (
    BLOCK,
    MIB,
    entries_of,
    flip,
    run,
    run_json,
    show,
    size_of,
    start,
    wait_for,
)

pytest_plugins = ["cache_command", "s3_servers"]


def test_a_new_cache_is_private(tmp_path):
    (tmp_path / "data").write_bytes(b"secret")
    run("warm", tmp_path / "cache", tmp_path / "data")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


WILD_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long next_jump(void) {
  static atomic_long calls;
  const long years = atol(getenv("JUMP_YEARS"));
  /* Each time it is asked it is years later, or earlier, than the time before. */
  return (calls++ % 2 ? years : -years) * 31536000L;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  int (*real)(clockid_t, struct timespec*) = dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += next_jump();
  return result;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(struct timeval* now, void* zone) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return 0;
}
"""


@pytest.fixture(name="wild_clock")
def fixture_wild_clock(tmp_path):
    """The environment in which the wall clock jumps by 20 years every time it is looked at."""
    library = tmp_path / "wild_clock.so"
    source = tmp_path / "wild_clock.c"
    source.write_text(WILD_CLOCK)
    command = ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    environment = {**os.environ, "LD_PRELOAD": str(library), "JUMP_YEARS": "20"}
    command = ["date", "+%Y"]
    year = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert abs(int(year.stdout) - time.gmtime().tm_year) >= 19, "the clock does not jump"
    return environment


# warm


def test_a_clock_that_jumps_changes_nothing(cache, data, wild_clock):
    total = size_of(data)
    assert f"fetched {total // MIB}" in run("warm", cache, data, env=wild_clock).stdout
    # Whoever comes next finds everything, and so does it after them.
    assert run_json("warm", cache, data, "--verify")["fetched_bytes"] == 0
    assert " 0 B" not in run("show", cache, env=wild_clock).stdout.splitlines()[1]
    assert "fetched" not in run("warm", cache, data, "--verify", env=wild_clock).stdout
    run("check", cache, env=wild_clock)
    # Nor does it evict, or exceed, what is limited.
    run("warm", cache, data, "--quota", "16MiB", env=wild_clock)
    assert show(cache)["used_bytes"] <= 16 * MIB
    run("clear", cache, "--all", env=wild_clock)
    assert show(cache)["entries"] == 0


def test_warm_again_fetches_nothing(cache, data):
    first = run_json("warm", cache, data)
    assert first["objects"] == 5
    assert first["bytes"] == first["fetched_bytes"] == size_of(data)
    for source in (data, f"tree:{data}", f"{data}/", f"{data}/**", f"{data}/{{train-*,extra}}"):
        again = run_json("warm", cache, source, "--verify")
        assert again["fetched_bytes"] == 0, source
        assert again["there_bytes"] == size_of(data), source
    text = run("warm", cache, data).stdout
    assert "5 objects" in text and "were there" in text


def test_warm_by_patterns(cache, data):
    report = run_json("warm", cache, f"tree:{data}/train-{{000..001}}.tar")
    assert report["objects"] == 2
    assert run_json("warm", cache, f"{data}/train-00[12].tar")["there_bytes"] == 9 * MIB + 1
    assert run_json("warm", cache, f"{data}/*/labels")["fetched_bytes"] == 3000
    objects = show(cache, "--objects")["objects"]
    assert [pathlib.Path(o["url"]).name for o in objects] == [
        *["labels", "train-000.tar", "train-001.tar", "train-002.tar"]
    ]
    assert all(o["cached_bytes"] == o["size_bytes"] for o in objects)


def test_warm_names_what_is_missing_and_does_the_rest(cache, data):
    done = run("warm", cache, f"{data}/train-{{002..005}}.tar", f"{data}/none*", check=False)
    assert done.returncode == 1
    for name in ("train-004.tar", "train-005.tar", "none*"):
        assert f"there is nothing at {data}/{name}" in done.stderr
    assert "2 objects" in done.stdout


def test_a_changed_object_is_fetched_anew(cache, data):
    run("warm", cache, data)
    (data / "train-001.tar").write_bytes(os.urandom(9 * MIB + 1))
    report = run_json("warm", cache, data)
    assert report["fetched_bytes"] == 9 * MIB + 1


def test_warm_several_directories(tmp_path, data):
    first, second = tmp_path / "a", tmp_path / "b"
    report = run_json("warm", first, "--cache-dir", second, data)
    assert report["fetched_bytes"] == size_of(data)
    # By any name of the same directories, and in any order.
    again = run_json("warm", f"{second}/", "--cache-dir", f"{tmp_path}/./a", data)
    assert again["fetched_bytes"] == 0
    shown = run_json("show", first, "--cache-dir", second)["directories"]
    assert [d["path"] for d in shown] == [str(first), str(second)]
    assert all(d["entries"] > 0 for d in shown)
    assert sum(d["entries"] for d in shown) == 13
    run("check", first, "--cache-dir", second)


def test_a_relative_directory_is_the_same_cache(tmp_path, data):
    run("warm", "cache", "data", cwd=tmp_path)
    report = run_json("warm", tmp_path / "cache", data)
    assert report["fetched_bytes"] == 0


def test_a_quota_smaller_than_the_data(cache, data):
    done = run("warm", cache, data, "--quota", "16MiB")
    assert "no room for" in done.stderr
    assert "an epoch will hit about" in done.stderr
    shown = show(cache)
    assert shown["limit_bytes"] == 16 * MIB
    assert 8 * MIB < shown["used_bytes"] <= 16 * MIB
    report = run_json("warm", cache, data, "--quota", "16MiB")
    assert report["no_room_bytes"] + report["there_bytes"] == size_of(data)
    # With more room the rest comes in.
    assert run_json("warm", cache, data)["no_room_bytes"] == 0


def test_two_at_once_fetch_into_one_cache(cache, data):
    both = [start("warm", cache, data, "--json") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        report = json.loads(out)
        assert report["fetched_bytes"] + report["there_bytes"] == size_of(data)
    assert show(cache)["entries"] == 13
    assert run_json("check", cache)["healthy"]
    assert run_json("warm", cache, data, "--verify")["fetched_bytes"] == 0


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_warming_leaves_nothing_half_done(cache, data, sign):
    process = start("warm", cache, data, "--bandwidth", "4MB", "--json")
    wait_for(lambda: cache.exists() and entries_of(cache), "nothing was fetched")
    began = time.monotonic()
    process.send_signal(sign)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 3
    assert process.returncode == 130, err
    report = json.loads(out)
    assert report["interrupted"] is True
    assert 0 < report["fetched_bytes"] < size_of(data)
    assert list((cache / "tmp").iterdir()) == []
    assert list((cache / "members").iterdir()) == []
    assert run_json("check", cache)["healthy"]
    again = run_json("warm", cache, data)
    assert again["there_bytes"] >= report["fetched_bytes"]
    assert again["fetched_bytes"] + again["there_bytes"] == size_of(data)


def test_killed_while_warming(cache, data):
    for kills in range(1, 4):
        process = start("warm", cache, data, "--bandwidth", "4MB")
        wait_for(lambda k=kills: cache.exists() and len(entries_of(cache)) >= k, "too slow")
        process.kill()
        process.communicate()
    assert run_json("check", cache)["healthy"]
    assert show(cache)["members"] == []
    again = run_json("warm", cache, data)
    assert again["there_bytes"] > 0
    assert again["fetched_bytes"] + again["there_bytes"] == size_of(data)
    report = run_json("check", cache)
    assert report["healthy"]
    assert report["directories"][0]["leftovers"] == 0  # The second warming removed them.


def test_no_progress_where_there_is_no_terminal(cache, data):
    assert run("warm", cache, data).stderr == ""
    assert run("check", cache).stderr == ""


# show


def test_show_json(cache, data):
    run("warm", cache, data)
    shown = show(cache)
    assert shown["path"] == str(cache)
    assert shown["entries"] == 13
    assert shown["windows"]["entries"] + shown["small"]["entries"] == 13
    assert shown["small"]["entries"] >= 1
    assert shown["used_bytes"] == sum(path.stat().st_size for path in entries_of(cache))
    assert shown["used_bytes"] < shown["limit_bytes"] < shown["total_bytes"]
    assert shown["members"] == []
    assert shown["foreign"] == shown["damaged_headers"] == 0
    assert shown["reads"]["hit_bytes"] == shown["reads"]["miss_bytes"] == 0
    assert shown["reads"]["since"] > time.time() - 600
    assert shown["sources"] == [
        {"folder": f"tree:{data}/", "entries": 12, "bytes": 4 * 9 * MIB + 6},
        {"folder": f"tree:{data}/extra/", "entries": 1, "bytes": 3000},
    ]


def test_show_text_and_members(cache, data):
    run("warm", cache, data / "train-000.tar")
    process = start("warm", cache, data, "--bandwidth", "1MB")
    try:
        wait_for(lambda: show(cache)["members"], "it is not seen")
        text = run("show", cache).stdout
        assert f"1 process: {process.pid}" in text
        assert f"tree:{data}/" in text
        assert [m["pid"] for m in show(cache)["members"]] == [process.pid]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert "nobody now" in run("show", cache).stdout


# check


def test_check_finds_damage_and_repairs_it(cache, data):
    run("warm", cache, data)
    entries = entries_of(cache)
    large = [path for path in entries if path.stat().st_size > MIB]
    flip(large[0], MIB - 1)  # In its data,
    flip(large[1], 100)  # in its header,
    os.truncate(large[2], large[2].stat().st_size - BLOCK)  # torn,
    large[3].write_bytes(b"")  # empty,
    large[4].rename(large[4].with_name(large[4].name[:-1] + "0"))  # under another name.
    done = run("check", cache, check=False)
    assert done.returncode == 1
    assert "5 damaged" in done.stdout
    assert str(large[0]) in done.stdout
    assert "--repair" in done.stdout
    report = run_json("check", cache, check=False)["directories"][0]
    assert report["damaged"] == 5 and report["removed"] == 0 and report["entries"] == 8
    assert large[0].exists()

    repaired = run("check", cache, "--repair")
    assert "5 damaged (5 removed)" in repaired.stdout
    assert not large[0].exists()
    after = run_json("check", cache)
    assert after["healthy"] and after["directories"][0]["leftovers"] == 0
    again = run_json("warm", cache, data, "--verify")
    assert again["fetched_bytes"] > 0
    assert again["fetched_bytes"] + again["there_bytes"] == size_of(data)
    assert show(cache)["entries"] == 13


def test_check_names_planted_files_and_leaves_them(cache, data):
    run("warm", cache, data)
    part = entries_of(cache)[0].parent
    planted = [cache / "notes", part / "x", cache / "tmp" / "mine", cache / "members" / "who"]
    for path in planted:
        path.write_text("mine")
    link = part / (part.name + "0" * 30 + "-2")
    link.symlink_to("/etc/passwd")
    done = run("check", cache, "--repair", check=False)
    assert done.returncode == 1
    assert "5 foreign" in done.stdout
    for path in (*planted, link):
        assert str(path) in done.stdout
        assert path.is_symlink() or path.read_text() == "mine"
    assert show(cache)["foreign"] == 5


@pytest.mark.parametrize("name", ["entries", "tmp", "members", "state", "index", "part"])
def test_links_planted_in_a_cache_are_named_and_not_followed(tmp_path, cache, data, name):
    run("warm", cache, data)
    planted = entries_of(cache)[0].parent if name == "part" else cache / name
    elsewhere = tmp_path / "elsewhere"
    planted.rename(elsewhere)
    planted.symlink_to(elsewhere)
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}
    commands = [["warm", cache, data], ["show", cache], ["clear", cache, "--all"]]
    for command in [*commands, ["check", cache], ["check", cache, "--repair"]]:
        done = run(*command, check=False)
        assert done.returncode == 1, done.stdout
        assert f"{planted} is a symbolic link" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before
    planted.unlink()
    elsewhere.rename(planted)
    assert run_json("check", cache)["healthy"]


def test_check_says_whose_leftovers_it_saw(cache, data):
    run("warm", cache, data)
    member = "999999-0123456789abcdef"
    left = [cache / "tmp" / f"{member}-3", cache / "members" / f"{member}.lock"]
    for path in left:
        path.write_bytes(b"")
    done = run("check", cache)
    assert "2 left over" in done.stdout
    assert all(path.exists() for path in left)
    run("check", cache, "--repair")
    assert not any(path.exists() for path in left)


def test_check_while_others_warm(cache, data):
    run("warm", cache, data / "train-000.tar")
    process = start("warm", cache, data, "--bandwidth", "20MB")
    while process.poll() is None:
        assert run_json("check", cache, "--repair")["healthy"]
    process.communicate()
    assert process.returncode == 0


# clear


def test_clear_everything(cache, data):
    run("warm", cache, data)
    done = run("clear", cache, "--all")
    assert "removed 13 entries" in done.stdout
    assert entries_of(cache) == []
    shown = show(cache)
    assert shown["entries"] == shown["used_bytes"] == 0
    assert "all is well" in run("check", cache).stdout
    # Nobody believes that the room is still taken.
    report = run_json("warm", cache, data, "--quota", "60MiB")
    assert report["fetched_bytes"] == size_of(data)


def test_clear_by_source(cache, data):
    run("warm", cache, data)
    cleared = run_json("clear", cache, "--source", f"{data}/train-{{000,001}}.tar")
    assert cleared["directories"][0]["removed_entries"] == 6
    run("clear", cache, "--source", f"tree:{data}/extra")
    urls = [o["url"] for o in show(cache, "--objects")["objects"]]
    assert urls == [f"tree:{data}/train-002.tar", f"tree:{data}/train-003.tar"]
    nothing = run("clear", cache, "--source", "s3://bucket/x")
    assert "nothing in it is from there" in nothing.stdout
    # What is gone can still be named.
    for path in data.glob("*.tar"):
        path.unlink()
    run("clear", cache, "--source", f"{data}/train-002.tar", "--source", f"{data}/*-003.tar")
    assert entries_of(cache) == []


def test_clear_takes_an_address_as_it_is_written_first(cache, data):
    for folder in ("x[12]", "x1", "x2"):
        (data / folder).mkdir()
        (data / folder / "{a}").write_bytes(b"1")
    run("warm", cache, data)

    def folders():
        return {f.split("/")[-2] for f in (s["folder"] for s in show(cache)["sources"])}

    shown = next(s["folder"] for s in show(cache)["sources"] if "[" in s["folder"])
    run("clear", cache, "--source", shown)
    assert folders() == {"data", "extra", "x1", "x2"}
    # With nothing of that name they are wildcards.
    for path in (data / "x[12]" / "{a}", data / "x[12]"):
        path.unlink() if path.is_file() else path.rmdir()
    run("clear", cache, "--source", f"tree:{data}/x[12]")
    assert folders() == {"data", "extra"}


def test_clear_down_to_a_size(cache, data):
    run("warm", cache, data)
    cleared = run_json("clear", cache, "--to", "20MiB")["directories"][0]
    assert 12 * MIB < cleared["left_bytes"] <= 20 * MIB
    assert show(cache)["used_bytes"] == cleared["left_bytes"]
    assert run_json("check", cache)["healthy"]
    assert run_json("clear", cache, "--to", "20MiB")["directories"][0]["removed_entries"] == 0


def test_clear_while_another_uses_it(cache, data):
    run("warm", cache, data)
    process = start("warm", cache, data, "--bandwidth", "2MB", "--json")
    run("clear", cache, "--all")
    run("clear", cache, "--to", "8MiB")
    wait_for(lambda: process.poll() is not None or show(cache)["entries"] > 0, "nothing comes")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert run_json("check", cache)["healthy"]


# What is typed wrong, and drives that are.
