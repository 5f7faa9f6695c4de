"""`penstock bench` as people run it: what it prints, what it refuses, and what it leaves behind."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PENSTOCK = os.environ.get("PENSTOCK_BIN", str(ROOT / "build/release/src/cli/penstock"))
MIB = 1 << 20

RESULT_FIELDS = {
    "label": str,
    "op": str,
    "pattern": str,
    "mode": str,
    "cache": str,
    "block_bytes": int,
    "depth": int,
    "jobs": int,
    "new_file": bool,
}
MEASURED_FIELDS = {
    "bytes": int,
    "ops": int,
    "seconds": float,
    "throughput_bytes_per_second": float,
    "ops_per_second": float,
    "cpu_seconds": float,
    "latency_mean_ns": int,
    "latency_p50_ns": int,
    "latency_p90_ns": int,
    "latency_p99_ns": int,
    "latency_p999_ns": int,
    "latency_max_ns": int,
    "rate_over_time": list,
}


def bench(*arguments, check=True):
    done = subprocess.run(
        [PENSTOCK, "bench", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def left_in(directory):
    return sorted(path.name for path in pathlib.Path(directory).iterdir())


def check_report(report):
    assert report["schema"] == 1
    assert report["interrupted"] is False
    assert report["error"] is None
    assert report["machine"]["cores"] >= 1
    assert report["machine"]["kernel"]
    assert report["results"]
    for result in report["results"]:
        for name, kind in RESULT_FIELDS.items():
            assert isinstance(result[name], kind), (name, result)
        if result["skipped"] is not None:
            assert isinstance(result["skipped"], str)
            continue
        for name, kind in MEASURED_FIELDS.items():
            assert isinstance(result[name], kind), (name, result)
        assert result["ops"] > 0, result["label"]
        assert result["latency_p50_ns"] <= result["latency_p99_ns"] <= result["latency_max_ns"]
        assert sum(sample["bytes"] for sample in result["rate_over_time"]) == result["bytes"]
    for finding in report["findings"]:
        assert finding["id"] and finding["text"]


@pytest.mark.parametrize(
    "profile", ["general", "checkpoint", "shards", "images", "embeddings", "logs"]
)
def test_json_of_every_profile(tmp_path, profile):
    done = bench(tmp_path, "--json", "--size", "24MiB", "--seconds", "0.02", "--profile", profile)
    report = json.loads(done.stdout)
    check_report(report)
    assert report["options"] == {
        "profile": profile,
        "size_bytes": 24 * MIB,
        "case_seconds": 0.02,
    }
    assert report["target"]["kind"] == "directory"
    assert report["target"]["file_system"]
    assert report["results"][0]["new_file"] is True
    assert report["results"][0]["bytes"] == 24 * MIB
    assert left_in(tmp_path) == []


def test_table_has_sections_and_findings(tmp_path):
    done = bench(tmp_path, "--quick", "--size", "32MiB", "--seconds", "0.05")
    for text in ["Sequential read", "Random read", "Small files", "What this says", "fsync takes"]:
        assert text in done.stdout
    assert done.stderr == ""  # No progress where there is no terminal.


def test_html_is_one_well_formed_page(tmp_path):
    page = tmp_path / "report.html"
    bench(tmp_path, "--size", "24MiB", "--seconds", "0.02", "--html", page)
    text = page.read_text()
    tree = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))
    assert len(list(tree.iter("svg"))) >= 4
    assert len(list(tree.iter("tr"))) > 20
    for outside in ["http:", "https:", "src=", "href=", "url("]:
        assert outside not in text
    assert left_in(tmp_path) == ["report.html"]


def test_html_path_is_checked_before_measuring(tmp_path):
    begin = time.monotonic()
    done = bench(tmp_path, "--html", tmp_path / "no" / "such" / "x.html", check=False)
    assert done.returncode == 2
    assert "no/such" in done.stderr
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("engine", ["io_uring", "threads"])
def test_engines_and_single_cases(tmp_path, engine):
    done = bench(
        tmp_path,
        *["--json", "--size", "8MiB", "--seconds", "0.05", "--engine", engine],
        *["--case", "read:random:direct:4KiB:8x2", "--case", "write:sequential:buffered:64KiB:4"],
        check=False,
    )
    if engine == "io_uring" and done.returncode != 0 and "io_uring" in done.stderr:
        pytest.skip("io_uring is refused here: " + done.stderr.strip())
    report = json.loads(done.stdout)
    check_report(report)
    assert [r["label"] for r in report["results"][1:]] == [
        "random read, direct, 4 KiB, depth 8, 2 jobs",
        "sequential write, buffered, 64 KiB, depth 4",
    ]
    assert left_in(tmp_path) == []


def test_existing_file_is_only_read(tmp_path):
    mine = tmp_path / "mine"
    mine.write_bytes(os.urandom(3 * MIB + 17))
    before = hashlib.sha256(mine.read_bytes()).hexdigest(), mine.stat().st_mtime_ns
    report = json.loads(bench(mine, "--json", "--seconds", "0.02").stdout)
    check_report(report)
    assert report["target"]["kind"] == "file"
    assert {result["op"] for result in report["results"]} == {"read"}
    assert (hashlib.sha256(mine.read_bytes()).hexdigest(), mine.stat().st_mtime_ns) == before
    assert left_in(tmp_path) == ["mine"]
    refused = bench(mine, "--case", "write:random:direct:4KiB:1", check=False)
    assert refused.returncode == 2
    assert "only read" in refused.stderr


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("wait_seconds", [0.3, 1.2])
def test_interrupt_leaves_nothing_behind(tmp_path, sign, wait_seconds):
    process = subprocess.Popen(
        [PENSTOCK, "bench", tmp_path, "--size", "64MiB", "--seconds", "0.5", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not left_in(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(wait_seconds)
    process.send_signal(sign)
    process.send_signal(sign)  # As `timeout` does: to the process, and to its group.
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert left_in(tmp_path) == []
    if out:
        assert json.loads(out)["interrupted"] is True


def test_a_page_never_replaces_what_is_measured(tmp_path):
    data = tmp_path / "data.bin"
    data.write_bytes(bytes(range(256)) * 4096)
    (tmp_path / "link").symlink_to(data)
    for page in (data, tmp_path / "link", "/dev/null", tmp_path):
        done = bench(data, "--quick", "--html", page, check=False)
        assert done.returncode == 2, done.stderr
        assert "--html" in done.stderr
    assert data.read_bytes() == bytes(range(256)) * 4096


def test_an_output_that_cannot_be_written_is_an_error(tmp_path):
    with open("/dev/full", "w") as full:
        command = [PENSTOCK, "bench", tmp_path, "--quick"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1
        assert "standard output" in done.stderr
        missing = [PENSTOCK, "bench", tmp_path / "no"]
        assert subprocess.run(missing, stderr=full, check=False).returncode == 2


def test_leftovers_of_a_killed_run_are_removed(tmp_path):
    process = subprocess.Popen(
        [PENSTOCK, "bench", tmp_path, "--size", "64MiB", "--seconds", "5"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while len(left_in(tmp_path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    case = ["--size", "4MiB", "--seconds", "0.01", "--case", "read:random:direct:4KiB:1"]
    other = bench(tmp_path, *case)  # While the first is alive, its files stay.
    assert "left by a run that was killed" not in other.stderr
    assert len(left_in(tmp_path)) == 2
    process.kill()
    process.wait()
    assert len(left_in(tmp_path)) == 2
    after = bench(tmp_path, *case)
    assert "left by a run that was killed" in after.stderr
    assert left_in(tmp_path) == []


def test_refuses_to_fill_the_disk(tmp_path):
    done = bench(tmp_path, "--size", "500TiB", check=False)
    assert done.returncode == 1
    assert "would fill the disk" in done.stderr
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--size", "4M"], "4M"),
        (["--size", "1KiB"], "1 MiB or more"),
        (["--profile", "chekpoint"], "checkpoint"),
        (["--case", "read:random"], "OP:PATTERN:MODE"),
        (["--case", "read:random:direct:4KiB:1", "--profile", "logs"], "not both"),
        (["--seconds", "-1"], "--seconds"),
        (["--engine", "magic"], "--engine"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_bad_arguments_are_refused_with_the_reason(tmp_path, arguments, expected):
    done = bench(tmp_path, *arguments, check=False)
    assert done.returncode != 0
    assert expected in done.stderr
    assert left_in(tmp_path) == []


def test_missing_and_odd_targets(tmp_path):
    missing = bench(tmp_path / "nowhere", check=False)
    assert missing.returncode == 2
    assert "nowhere" in missing.stderr
    empty = tmp_path / "empty"
    empty.touch()
    assert "too small" in bench(empty, check=False).stderr
    assert "neither" in bench("/dev/null", check=False).stderr


@pytest.fixture(name="bucket")
def fixture_bucket():
    """The address of an empty place in the test server, and how to list what is there."""
    boto3 = pytest.importorskip("boto3")
    if "PENSTOCK_TEST_S3" not in os.environ:
        pytest.skip("no S3 to test with: see tools/s3-server")
    client = boto3.client("s3")
    name = f"bench-test-{os.getpid()}"
    client.create_bucket(Bucket=name)
    yield f"s3://{name}/below", lambda: client.list_objects_v2(Bucket=name).get("Contents", [])
    for left in client.list_objects_v2(Bucket=name).get("Contents", []):
        client.delete_object(Bucket=name, Key=left["Key"])
    client.delete_bucket(Bucket=name)


def test_s3(bucket):
    address, contents = bucket
    report = json.loads(bench(address, "--json", "--size", "16MiB", "--seconds", "0.1").stdout)
    assert report["target"]["kind"] == "store"
    assert {r["op"] for r in report["results"]} == {
        *["put", "get", "get_range", "head", "list", "remove"]
    }
    assert all(result["ops"] > 0 for result in report["results"])
    assert contents() == []


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_s3_interrupt_removes_the_objects(bucket, sign):
    address, contents = bucket
    process = subprocess.Popen(
        [PENSTOCK, "bench", address, "--size", "16MiB", "--seconds", "5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while not contents() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(sign)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert contents() == []


def test_s3_errors_are_clear(bucket):
    address, _ = bucket
    missing = bench(address.replace("bench-test", "no-such-bucket"), check=False)
    assert missing.returncode == 2
    assert "no-such-bucket" in missing.stderr
