"""What `./run bench cache` and `./run bench sync` are made of, with tiny sizes."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release/bench"
DRIVER = BUILD / "cache_driver"
PROXY = BUILD / "delay_proxy"
KIB = 1 << 10
MIB = 1 << 20
ROUND_TRIP = 0.02


def drive(*words, check=True):
    command = [str(word) for word in (DRIVER, *words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if check:
        assert done.returncode == 0, done.stderr
    return done


def epochs(*words):
    return json.loads(drive("read", *words).stdout)["epochs"]


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    """Three objects of known content."""
    path = tmp_path / "tree"
    path.mkdir()
    drive("make", f"tree:{path}", "--objects", 3, "--bytes", 5 * MIB + 777)
    return path


PATTERNS = {
    "sequential": ["--block", "1MiB"],
    "shuffled": ["--block", "100KiB"],
    "shuffled-objects": ["--block", "100KiB"],
    "random": ["--block", "100KiB", "--bytes", "4MiB"],
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_reads_are_right_and_whole(tree, tmp_path, pattern):
    cache = tmp_path / "cache"
    drive("stage", f"tree:{tree}", "--cache", cache)
    words = ["--pattern", pattern, *PATTERNS[pattern], "--verify"]
    expected = 41 * 100 * KIB if pattern == "random" else 3 * (5 * MIB + 777)
    for place in ([tree, "--raw"], [f"tree:{tree}"], [f"tree:{tree}", "--cache", cache]):
        (epoch,) = epochs(*place, *words)
        assert epoch["bytes"] == expected
        assert epoch["seconds"] > 0
        assert epoch["cpu_seconds"] > 0
    assert epoch["source_bytes"] == 0
    assert epoch["miss_bytes"] == 0


@pytest.mark.parametrize("place", ["raw", "store"])
def test_wrong_bytes_are_noticed(tree, place):
    with open(tree / "object-000001", "r+b") as file:
        file.seek(3 * MIB + 5)
        byte = file.read(1)
        file.seek(3 * MIB + 5)
        file.write(bytes([byte[0] ^ 1]))
    words = [tree, "--raw"] if place == "raw" else [f"tree:{tree}"]
    assert drive("read", *words).returncode == 0
    done = drive("read", *words, "--verify", check=False)
    assert done.returncode == 1
    assert "wrong bytes at 3145728 of object 1" in done.stderr


def test_a_cold_read_says_what_the_source_was_asked_for(tree, tmp_path):
    cold, warm = epochs(f"tree:{tree}", "--cache", tmp_path / "cache", "--epochs", 2)
    assert cold["source_bytes"] == cold["bytes"]
    assert warm["source_bytes"] < warm["bytes"]


def test_opening_a_cache_of_many_entries(tree, tmp_path):
    cache = tmp_path / "cache"
    drive("stage", f"tree:{tree}", "--cache", cache)
    drive("entries", cache, "--count", 3000)
    words = ["--cache", cache, "--entries", 3000, "--block", "100KiB", "--bytes", "4MiB"]
    answer = json.loads(drive("open", f"tree:{tree}", *words, "--verify").stdout)
    assert answer["entries"] >= 3000 + 6
    assert answer["evictions"] == 0
    assert answer["open_seconds"] > 0
    assert answer["first_hit_seconds"] > 0
    assert answer["counted_seconds"] > answer["open_seconds"]
    assert 0 < answer["rss_before_bytes"] <= answer["rss_peak_bytes"]
    assert answer["memory_peak_bytes"] <= answer["memory_bytes"] == 256 * MIB


class Server:
    """Sends as many bytes as each line that it gets says, then waits for the next."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                connection.sendall(content(int(line)))
            connection.sendall(b"end")


def content(count):
    block = bytes(range(256)) + b"x"
    return (block * (count // len(block) + 1))[:count]


@pytest.fixture(name="server")
def fixture_server():
    server = Server()
    yield server
    server.listener.close()


@pytest.fixture(name="proxy")
def fixture_proxy(server):
    started = []

    def start(*options):
        command = [str(word) for word in (PROXY, server.port, *options)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return int(started[-1].stdout.readline())

    yield start
    for process in started:
        process.terminate()
        assert process.wait(10) == -signal.SIGTERM
        process.stdout.close()


def ask(connection, count):
    """The seconds until all of the answer was there."""
    start = time.perf_counter()
    connection.sendall(f"{count}\n".encode())
    got = bytearray()
    while len(got) < count:
        piece = connection.recv(1 << 20)
        assert piece
        got += piece
    seconds = time.perf_counter() - start
    assert bytes(got) == content(count)
    return seconds


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def test_the_proxy_delays_every_answer_by_a_round_trip(proxy):
    with connect(proxy("--delay-ms", 10)) as connection:
        assert ask(connection, 1) >= 2 * ROUND_TRIP  # With the handshake.
        assert ask(connection, 1) >= ROUND_TRIP
        assert ask(connection, 9 * MIB) >= ROUND_TRIP


def test_the_proxy_holds_each_connection_to_its_window(proxy):
    port = proxy("--delay-ms", 10, "--window", 64 * KIB)
    with connect(port) as one:
        ask(one, 1)
        assert ask(one, MIB) >= 15 * ROUND_TRIP  # Sixteen windows.
    others = [connect(port) for _ in range(8)]
    seconds = []
    threads = [
        threading.Thread(target=lambda c=c: seconds.append(ask(c, 128 * KIB))) for c in others
    ]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = time.perf_counter() - start
    for connection in others:
        connection.close()
    assert len(seconds) == 8
    assert together < sum(seconds)  # Windows are of each, not of all.


def test_the_proxy_keeps_to_the_rate_of_the_link(proxy):
    with connect(proxy("--delay-ms", 1, "--rate", 20e6)) as connection:
        assert ask(connection, 4 * MIB) >= 4 * MIB / 20e6


def test_the_proxy_passes_the_end_on(proxy):
    with connect(proxy("--delay-ms", 1)) as connection:
        connection.sendall(b"5\n")
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while piece := connection.recv(100):
            got += piece
        assert got == content(5) + b"end"


def test_the_proxy_ends_with_who_started_it(server):
    script = (
        "import subprocess, sys\n"
        "proxy = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n"
        "print(proxy.pid, int(proxy.stdout.readline()), flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", script, str(PROXY), str(server.port)]
    starter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with starter:
        _, port = map(int, starter.stdout.readline().split())
        connect(port).close()
        starter.kill()
        starter.wait()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                connect(port).close()
            except ConnectionRefusedError:
                return
            except ConnectionResetError:
                pass  # It is about to end: the kernel took the connection, nobody else did.
            time.sleep(0.01)
    pytest.fail("the proxy is still there")


@pytest.mark.parametrize(
    "words",
    [[], ["0"], ["80", "--delay-ms"], ["80", "--window", "0"], ["80", "--rate", "fast"]],
    ids=["nothing", "no-port", "no-value", "no-window", "no-number"],
)
def test_the_proxy_refuses_what_makes_no_sense(words):
    done = subprocess.run([PROXY, *words], capture_output=True, text=True, check=False, timeout=10)
    assert done.returncode == 2
    assert "usage" in done.stderr


def run_bench(*words):
    command = [sys.executable, ROOT / "bench/run.py", *words]
    return subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def scratch_folders():
    return set((ROOT / "build").glob("bench-*-*"))


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_benchmark_leaves_nothing_behind(sign):
    before = scratch_folders()
    process = run_bench("cache", "--tiny")
    deadline = time.monotonic() + 60
    while not (made := scratch_folders() - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, sign)
    out, _ = process.communicate(timeout=60)
    assert made, out
    assert process.returncode == 128 + sign, out
    assert not any(folder.exists() for folder in made)


def tiny_table(name):
    process = run_bench(name, "--tiny")
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0, out
    return [line for line in out.splitlines() if line.startswith("| ")]


def need_s3(*programs):
    if "PENSTOCK_TEST_S3" not in os.environ:
        pytest.skip("no S3 to test with: see tools/s3-server")
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def test_s3_cache_benchmark_runs():
    need_s3("curl")
    before = scratch_folders()
    table = tiny_table("cache")
    assert len(table) == 1 + 11, table
    assert scratch_folders() <= before


def test_s3_sync_benchmark_runs():
    need_s3("rclone", "rsync")
    before = scratch_folders()
    table = tiny_table("sync")
    assert len(table) == 1 + 6, table
    assert scratch_folders() <= before


def test_s3_volumes_benchmark_runs():
    need_s3("bindfs", "s3fs", "rclone")
    before = scratch_folders()
    table = tiny_table("volumes")
    assert len(table) == 1 + 22, table
    assert scratch_folders() <= before
