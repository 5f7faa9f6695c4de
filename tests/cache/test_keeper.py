"""Several real processes on one cache directory, some of which are killed."""

import hashlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "build/release/tests/cache/keeper_tool"
BLOCK = 4096


class Member:
    def __init__(self, directory, quota, tick_ms=100):
        command = [TOOL, directory, str(quota), str(tick_ms)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def fill(self, first, count, blocks):
        return int(self.ask(f"fill {first} {count} {blocks}").split()[1])

    def status(self):
        pairs = dict(word.split("=") for word in self.ask("status").split())
        name = pairs.pop("member")
        return {"member": name} | {key: float(value) for key, value in pairs.items()}

    def settle(self):
        assert self.ask("settle") == "ok"

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def leave(self):
        _, errors = self.process.communicate("leave\n", timeout=30)
        assert self.process.returncode == 0
        assert errors == ""

    def send(self, what):
        self.process.send_signal(what)


def eventually(condition, seconds=30.0):
    """How long it took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, "it did not happen"
        time.sleep(0.005)
    return time.monotonic() - start


def bytes_there(directory):
    total = 0
    for part in (directory / "entries").iterdir():
        for entry in part.iterdir():
            total += int(entry.name.split("-")[1], 16) * BLOCK
    return total


def bytes_there_now(directory, members):
    """Of one moment: nobody runs while it is looked at."""
    for member in members:
        member.send(signal.SIGSTOP)
    for member in members:
        state = f"/proc/{member.process.pid}/stat"
        eventually(
            lambda state=state: pathlib.Path(state).read_text().rsplit(")")[-1].split()[0] == "T"
        )
    total = bytes_there(directory)
    for member in members:
        member.send(signal.SIGCONT)
    return total


def fill_all(member, first, count, blocks):
    """Until all of them are in: room comes a little at a time."""
    done = 0

    def step():
        nonlocal done
        done += member.fill(first + done, count - done, blocks)
        return done == count

    eventually(step)


def test_another_takes_over_when_the_evictor_is_killed(tmp_path):
    # Five times as fast as real ones, so that a busy machine makes no difference.
    with Member(tmp_path, 1000 * BLOCK, tick_ms=20) as one:
        one.settle()
        with Member(tmp_path, 1000 * BLOCK, tick_ms=20) as two:
            assert one.status()["evictor"] == 1
            fill_all(one, 0, 10, 10)
            fill_all(two, 10, 10, 10)
            assert two.status()["evictor"] == 0
            one.kill()
            assert eventually(lambda: two.status()["evictor"] == 1) < 1.0
            two.settle()
            status = two.status()
            assert status["used"] == bytes_there(tmp_path) == 200 * BLOCK
            assert status["members"] == 1
            fill_all(two, 20, 10, 10)
            two.leave()
    assert list((tmp_path / "members").iterdir()) == []


def test_the_smallest_quota_of_those_alive_holds(tmp_path):
    with Member(tmp_path, 1000 * BLOCK) as one:
        fill_all(one, 0, 80, 10)
        with Member(tmp_path, 300 * BLOCK) as two:
            eventually(lambda: one.status()["used"] <= 300 * BLOCK)
            assert bytes_there(tmp_path) <= 300 * BLOCK
            eventually(lambda: two.status()["limit"] == 300 * BLOCK)
            two.kill()
            eventually(lambda: one.status()["limit"] == 1000 * BLOCK)
            one.ask(f"quota {100 * BLOCK}")
            eventually(lambda: one.status()["used"] <= 100 * BLOCK)
        one.leave()


def test_logs_and_leftovers_of_the_killed_are_read_then_removed(tmp_path):
    with Member(tmp_path, 1000 * BLOCK) as one:
        one.settle()
        with Member(tmp_path, 1000 * BLOCK) as two:
            fill_all(two, 0, 10, 10)
            two.ask("partial")
            name = two.status()["member"]
            assert (tmp_path / "tmp" / f"{name}-999").exists()
            two.kill()
        eventually(lambda: one.status()["members"] == 1)
        eventually(lambda: one.status()["used"] == 100 * BLOCK)
        eventually(lambda: not list((tmp_path / "members").glob(f"{name}*")))
        assert not list((tmp_path / "tmp").glob(f"{name}*"))
        one.leave()


def test_four_processes_at_once_stay_within_the_quota(tmp_path):
    quota = 2000 * BLOCK
    members = [Member(tmp_path, quota, tick_ms=20) for _ in range(4)]
    try:
        for number, member in enumerate(members):
            member.ask(f"flood {number * 100_000} 100000 8")
        most = 0

        def everyone_filled(count):
            nonlocal most
            most = max(most, bytes_there_now(tmp_path, members))
            return all(member.status()["flooded"] >= count for member in members)

        eventually(lambda: everyone_filled(100), 60)
        evictor = next(m for m in members if m.status()["evictor"])
        evictor.kill()
        members.remove(evictor)
        eventually(lambda: everyone_filled(300), 60)
        assert quota / 2 < most <= quota
    finally:
        for member in members:
            member.kill()
    with Member(tmp_path, quota) as last:
        last.settle()
        assert last.status()["used"] == bytes_there(tmp_path)


@pytest.fixture
def fast_path():
    """In memory: a hundred thousand files on a drive take longer than the rest of the tests."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield pathlib.Path(path)


def test_a_cache_of_many_entries_opens_at_once(fast_path):
    open_many(fast_path, 100_000)


@pytest.mark.long
def test_a_cache_of_a_million_entries_opens_at_once(tmp_path):
    with tempfile.TemporaryDirectory(dir=tmp_path) as path:  # Not kept, as pytest would.
        open_many(pathlib.Path(path), 1_000_000)


def open_many(tmp_path, count):
    with Member(tmp_path, count * BLOCK * 2) as first:
        first.settle()
        first.leave()
    make_entries(tmp_path, count)
    with Member(tmp_path, count * BLOCK * 2) as one:  # The state says there are none.
        one.settle()
        eventually(lambda: one.status()["known_ms"] > 0)
        cold = one.status()
        assert cold["entries"] == count
        assert cold["used"] == count * BLOCK
        one.leave()
    with Member(tmp_path, count * BLOCK * 2) as two:
        eventually(lambda: two.status()["known_ms"] > 0)
        warm = two.status()
        two.leave()
    print({"cold": cold, "warm": warm})
    for status in (cold, warm):
        assert status["entries"] == count
        # Ten times what it takes on a machine with nothing else to do.
        assert status["start_ms"] < 100
        assert status["reserve_ms"] < 1000
        assert status["known_ms"] < 20_000 * count / 1_000_000 + 1000
        assert status["index_bytes"] < 64 * count + 9 * 2**20


def make_entries(directory, count):
    for part in range(256):
        (directory / "entries" / f"{part:02x}").mkdir(exist_ok=True)
    for number in range(count):
        name = hashlib.blake2b(number.to_bytes(8), digest_size=16).hexdigest() + "-1"
        os.close(os.open(directory / "entries" / name[:2] / name, os.O_CREAT | os.O_WRONLY))
