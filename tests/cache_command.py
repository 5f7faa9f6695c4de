"""`penstock cache` as a process, and something to cache: shared by the tests of it."""

import json
import os
import pathlib
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
