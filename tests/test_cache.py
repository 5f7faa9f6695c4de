"""`penstock cache` as people run it: warm, show, check, clear, and what goes wrong."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PENSTOCK = os.environ.get("PENSTOCK_BIN", str(ROOT / "build/release/src/cli/penstock"))
MIB = 1 << 20
BLOCK = 4096


def run(*arguments, check=True, **options):
    done = subprocess.run(
        [PENSTOCK, "cache", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_a_new_cache_is_private(tmp_path):
    (tmp_path / "data").write_bytes(b"secret")
    run("warm", tmp_path / "cache", tmp_path / "data")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def run_json(*arguments, check=True):
    done = run(*arguments, "--json", check=check)
    return json.loads(done.stdout)


def show(cache, *options):
    return run_json("show", cache, *options)["directories"][0]


def entries_of(cache):
    return sorted(path for path in (cache / "entries").rglob("*") if path.is_file())


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 1]))


@pytest.fixture(name="cache")
def fixture_cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture(name="data")
def fixture_data(tmp_path):
    """Four shards of 9 MiB and a bit, and a small file: 13 windows and a piece."""
    folder = tmp_path / "data"
    (folder / "extra").mkdir(parents=True)
    for i in range(4):
        (folder / f"train-{i:03}.tar").write_bytes(os.urandom(9 * MIB + i))
    (folder / "extra" / "labels").write_bytes(os.urandom(3000))
    return folder


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def start(*arguments):
    return subprocess.Popen(
        [PENSTOCK, "cache", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(happened, what):
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


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


@pytest.fixture(name="bucket")
def fixture_bucket():
    """The name of a bucket with six objects, and a client for it."""
    boto3 = pytest.importorskip("boto3")
    if "PENSTOCK_TEST_S3" not in os.environ:
        pytest.skip("no S3 to test with: see tools/s3-server")
    client = boto3.client("s3")
    name = f"cache-test-{os.getpid()}"
    client.create_bucket(Bucket=name)
    for i in range(4):
        client.put_object(Bucket=name, Key=f"sub/train-{i}.tar", Body=os.urandom(5 * MIB + i))
    client.put_object(Bucket=name, Key="sub/deep/x y", Body=os.urandom(100))
    client.put_object(Bucket=name, Key="other", Body=b"o")
    yield name, client
    for left in client.list_objects_v2(Bucket=name).get("Contents", []):
        client.delete_object(Bucket=name, Key=left["Key"])
    client.delete_bucket(Bucket=name)


def test_s3_warm_by_any_name(cache, bucket):
    name, _ = bucket
    first = run_json("warm", cache, f"s3://{name}/sub/train-*.tar")
    assert first["objects"] == 4
    assert first["fetched_bytes"] == first["bytes"] == 20 * MIB + 6
    for address in (
        f"s3://{name}/sub/train-{{0..3}}.tar",
        f"s3://{name}/*/train-[0-3].tar",
        f"s3://{name}/**/train-?.tar",
    ):
        again = run_json("warm", cache, address, "--verify")
        assert again["objects"] == 4, address
        assert again["fetched_bytes"] == 0, address
    assert run_json("warm", cache, f"s3://{name}/sub/deep/x y")["fetched_bytes"] == 100
    rest = run_json("warm", cache, f"s3://{name}")
    assert rest["objects"] == 6
    assert rest["fetched_bytes"] == 1
    folders = [source["folder"] for source in show(cache)["sources"]]
    assert all(folder.startswith("s3://") and f"/{name}/" in folder for folder in folders)
    assert run_json("check", cache)["healthy"]


def test_s3_changed_and_missing(cache, bucket):
    name, client = bucket
    run("warm", cache, f"s3://{name}")
    client.put_object(Bucket=name, Key="sub/train-1.tar", Body=os.urandom(5 * MIB))
    done = run("warm", cache, f"s3://{name}/sub", f"s3://{name}/nope", "--json", check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["fetched_bytes"] == 5 * MIB
    assert f"there is nothing at s3://{name}/nope" in done.stderr


def test_s3_clear_by_address_and_as_shown(cache, bucket):
    name, _ = bucket
    run("warm", cache, f"s3://{name}")
    entries = show(cache)["entries"]
    cleared = run_json("clear", cache, "--source", f"s3://{name}/sub/train-{{0,1}}.tar")
    assert cleared["directories"][0]["removed_entries"] == 4
    shown = next(s for s in show(cache)["sources"] if s["folder"].endswith("/sub/"))
    run("clear", cache, "--source", shown["folder"])
    assert show(cache)["entries"] == entries - 4 - 4 - 1


@pytest.mark.parametrize("keys", ["/x*", "/x", "/x/", ""])
def test_s3_errors_are_clear(cache, bucket, keys):
    name, _ = bucket
    done = run("warm", cache, f"s3://no-{name}{keys}", check=False)
    assert done.returncode == 1
    assert f"there is no bucket 'no-{name}'" in done.stderr


def test_s3_interrupt(cache, bucket):
    name, _ = bucket
    process = start("warm", cache, f"s3://{name}", "--bandwidth", "2MB", "--json")
    wait_for(lambda: cache.exists() and entries_of(cache), "nothing was fetched")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 3
    assert process.returncode == 130, err
    assert json.loads(out)["interrupted"] is True
    assert run_json("check", cache)["healthy"]


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


def test_an_interrupt_while_listing_says_so(cache):
    """The server takes the request and never answers."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        env = {
            **os.environ,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_REGION": "us-east-1",
        }
        command = [PENSTOCK, "cache", "warm", str(cache), "s3://bucket-one/x"]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as warming:
            silent.settimeout(20)
            silent.accept()
            warming.send_signal(signal.SIGINT)
            out, _ = warming.communicate(timeout=20)
            assert warming.returncode == 130
            assert "interrupted before anything was found" in out
            assert "nothing to fetch" not in out
