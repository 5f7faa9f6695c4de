"""penstock doctor as people run it: the real command, on this machine and on small trees."""

import json
import os
import subprocess
from pathlib import Path

import pytest

BIN = os.environ.get(
    "PENSTOCK_BIN", str(Path(__file__).parent.parent / "build/release/src/cli/penstock")
)


def doctor(*args, env=None, cwd=None):
    return subprocess.run(
        [BIN, "doctor", *map(str, args)],
        capture_output=True,
        timeout=60,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )


def is_bash(script: bytes) -> bool:
    return subprocess.run(["bash", "-n"], input=script, timeout=60).returncode == 0


class Tree:
    """The proc, sys and etc of a small machine: one virtual disk, mounted at / and /data."""

    def __init__(self, root: Path):
        self.root = root
        self.mounts = []
        self.facts = {"memlock_bytes": 2**40, "io_uring_errno": 0, "space": {}}
        self.file(
            "proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 16000000 kB\nWriteback: 0 kB\n"
        )
        self.file("proc/cpuinfo", "processor : 0\n")
        self.file("proc/sys/kernel/osrelease", "6.8.0\n")
        self.file("proc/sys/vm/dirty_ratio", "5\n")
        self.file("proc/sys/vm/dirty_background_ratio", "2\n")
        self.file("sys/block/vda/queue/scheduler", "[none] mq-deadline\n")
        self.file("sys/block/vda/queue/read_ahead_kb", "4096\n")
        self.mount("/", "rw,relatime")

    def file(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def mount(self, point, options, free=0.5):
        escaped = point.replace("\\", "\\134").replace(" ", "\\040").replace("\n", "\\012")
        self.mounts.append(
            f"{len(self.mounts) + 20} 1 254:0 / {escaped} {options} - ext4 /dev/vda rw"
        )
        self.file("proc/self/mountinfo", "\n".join(self.mounts) + "\n")
        self.facts["space"][point] = {
            "total_bytes": 10**12,
            "available_bytes": int(free * 10**12),
            "total_inodes": 1000,
            "free_inodes": 900,
        }
        self.file("penstock-facts.json", json.dumps(self.facts))

    def doctor(self, *args):
        return doctor("--root", self.root, *args)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_exit_code_tells_the_severity(tree):
    assert tree.doctor().returncode == 0
    tree.mount("/data", "rw")
    assert tree.doctor("/data").returncode == 10
    tree.mount("/safe", "rw,nobarrier")
    assert tree.doctor("/safe").returncode == 20


def test_sizes_sharpen_the_advice(tree):
    assert tree.doctor("--checkpoint-size", "200GB").returncode == 0
    assert tree.doctor("--checkpoint-size", "300GB").returncode == 10
    result = tree.doctor("--checkpoint-size", "600GB")
    assert result.returncode == 20
    assert b"room for 0.8 checkpoints" in result.stdout
    assert b"Data set and page cache" in tree.doctor("--dataset-size", "1TB").stdout


def test_workload_decides_about_read_ahead(tree):
    assert tree.doctor("--workload", "shards").returncode == 0
    result = tree.doctor("--workload", "embeddings")
    assert result.returncode == 10
    assert b"blockdev --setra 256 /dev/vda" in result.stdout


def test_json_is_what_the_page_says(tree):
    tree.mount("/data", "rw")
    result = tree.doctor("/data", "--json")
    report = json.loads(result.stdout)
    assert report["schema"] == 1
    assert report["severity"] == "warn"
    assert report["exit_code"] == result.returncode == 10
    assert report["paths"][0]["mount_point"] == "/data"
    assert report["paths"][0]["device"] == "vda"
    finding = report["findings"][0]
    assert finding["id"] == "atime"
    assert finding["commands"] == ["mount -o remount,noatime /data"]
    assert sum(report["counts"].values()) == len(report["findings"])


@pytest.mark.parametrize(
    "name", ["/my data", "/it's", "/$(touch pwned)", "/a\ntouch pwned", "/ünïcode", "/`id`;x"]
)
def test_script_is_bash_and_names_stay_names(tree, tmp_path, name):
    tree.mount(name, "rw")
    script = tree.doctor(name, "--script").stdout
    assert is_bash(script)
    # With a `mount` that prints its last word, the name comes back byte for byte.
    lines = [line for line in script.splitlines() if line.startswith(b"mount ")]
    assert len(lines) == 1
    shell = b'mount() { printf %s "${@: -1}"; }\n' + lines[0]
    result = subprocess.run(["bash", "-c", shell], capture_output=True, cwd=tmp_path, timeout=60)
    assert result.stdout == name.encode()
    assert not (tmp_path / "pwned").exists()
    assert not any(line.startswith(b"touch") for line in script.splitlines())


def test_script_keeps_lines_once(tree, tmp_path):
    tree.file("proc/sys/vm/dirty_ratio", "40\n")
    script = tree.doctor("--script", "--workload", "checkpoints").stdout.decode()
    begin = script.index("keep() {")
    keep = script[begin : script.index("\n}\n", begin) + 3]
    target = tmp_path / "new" / "x.conf"
    for _ in range(2):
        subprocess.run(["bash", "-euc", keep + f"keep '{target}' 'a = 1'"], check=True, timeout=60)
    assert target.read_text() == "a = 1\n"
    assert "sysctl -w vm.dirty_ratio=5 vm.dirty_background_ratio=2" in script.splitlines()


@pytest.mark.parametrize(
    "args, message",
    [
        (["/no/such/path"], b"/no/such/path"),
        (["--checkpoint-size", "lots"], b"'lots' is not a size"),
        (["--dataset-size", "4G"], b"4GiB"),
        (["--workload", "cooking"], b"expected shards, images"),
        (["--root", "/nonexistent"], b"holds no proc"),
    ],
)
def test_wrong_usage_is_refused_in_words(args, message):
    result = doctor(*args)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == b""


def test_unknown_option_and_contradicting_ones_fail():
    assert doctor("--frobnicate").returncode == 2
    assert doctor("--json", "--script").returncode == 2


def test_relative_path_with_root_is_refused(tree):
    result = tree.doctor("data")
    assert result.returncode == 2
    assert b"start with /" in result.stderr


def test_damaged_trees_do_not_crash(tree):
    for path in [
        "proc/self/mountinfo",
        "proc/meminfo",
        "proc/mdstat",
        "sys/block/vda/queue/scheduler",
    ]:
        (tree.root / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / path).write_bytes(bytes(range(256)) * 64)
    tree.mount("/", "rw,relatime")
    assert tree.doctor().returncode in (0, 10, 20)
    tree.file("penstock-facts.json", "{")
    assert tree.doctor().returncode == 2


def test_facts_of_a_wrong_kind_are_refused_by_name(tree):
    tree.file("penstock-facts.json", json.dumps({"memlock_bytes": "x"}))
    result = tree.doctor()
    assert result.returncode == 2
    assert b"'memlock_bytes' must be a whole number" in result.stderr
    assert result.stdout == b""


def test_checkpoints_on_a_read_only_mount_are_an_error(tree):
    tree.mount("/data", "ro,relatime")
    assert tree.doctor("/data").returncode == 0
    assert tree.doctor("/data", "--workload", "checkpoints").returncode == 20
    result = tree.doctor("/data", "--checkpoint-size", "1GB")
    assert result.returncode == 20
    assert b"mount -o remount,rw /data" in result.stdout


def test_a_stopped_file_system_is_an_error(tree):
    tree.mount("/data", "rw,relatime,shutdown")
    result = tree.doctor("/data")
    assert result.returncode == 20
    assert b"e2fsck -f /dev/vda" in result.stdout
    assert b"Free space" not in result.stdout
    assert is_bash(tree.doctor("/data", "--script").stdout)


def test_a_device_is_not_a_file_system(tree):
    report = json.loads(tree.doctor("/dev/vda", "--json").stdout)
    assert report["paths"][0]["type"] == "block device"
    assert report["paths"][0]["device"] == "vda"
    ids = {finding["id"] for finding in report["findings"]}
    assert {"block-device", "read-ahead", "scheduler"} <= ids
    assert "free-space" not in ids


def test_text_keeps_to_columns(tree):
    result = doctor("--root", tree.root, env={"COLUMNS": "50"})
    for line in result.stdout.decode().splitlines():
        assert len(line) <= 50, line


def test_help_tells_exit_codes():
    text = doctor("--help").stdout
    assert b"10 warnings, 20 errors" in text
    assert b"--script" in text


@pytest.mark.parametrize("path", [".", "/", "/tmp", "/dev/shm", "/proc"])
def test_this_machine(path):
    result = doctor(path)
    assert result.returncode in (0, 10, 20), result.stderr
    assert b"\x1b" not in result.stdout
    assert b"not seen." in result.stdout
    report = json.loads(doctor(path, "--json").stdout)
    assert report["findings"]
    assert report["paths"][0]["path"] == os.path.realpath(path)
    assert is_bash(doctor(path, "--script").stdout)


def test_this_machine_without_a_path_is_the_current_directory(tmp_path):
    report = json.loads(doctor("--json", cwd=tmp_path).stdout)
    assert report["paths"][0]["path"] == os.path.realpath(tmp_path)


def test_odd_names_on_this_machine(tmp_path):
    odd = tmp_path / "it's a\nset"
    odd.mkdir()
    link = tmp_path / "link"
    link.symlink_to(odd)
    report = json.loads(doctor(link, "--json").stdout)
    assert report["paths"][0]["path"] == os.path.realpath(odd)
    raw = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(raw)
    result = subprocess.run(
        [os.fsencode(BIN), b"doctor", b"--json", raw], capture_output=True, timeout=60
    )
    assert json.loads(result.stdout)["paths"][0]["path"].endswith("\ufffd")


def test_a_full_standard_output_is_an_error():
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [BIN, "doctor", "/"], stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert result.returncode == 1
    assert b"No space left" in result.stderr


def test_a_path_on_no_mount_is_said_and_the_rest_examined(tree):
    """As in a chroot: the table has mounts, but not the one of the root."""
    tree.mounts.clear()
    tree.mount("/elsewhere", "rw,relatime")
    result = tree.doctor("/data")
    assert result.returncode in (0, 10, 20), result.stderr
    assert b"cannot be seen" in result.stdout
    assert b"Unwritten pages" in result.stdout or b"io_uring" in result.stdout
