"""What a mount counts, and how it is told: through the owner's socket, and in a file."""

import contextlib
import errno
import math
import os
import re
import time

import pytest
from mount_tools import is_mounted, needs_fuse

pytest_plugins = ["mounted_volume"]
pytestmark = needs_fuse

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]Inf|NaN")
UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def parse_sample(line):
    """name, labels and value, or an error: nothing is taken for granted."""
    name = NAME.match(line)
    assert name, line
    rest = line[name.end() :]
    labels = {}
    if rest.startswith("{"):
        rest = rest[1:]
        while not rest.startswith("}"):
            label = LABEL.match(rest)
            assert label and label[1] not in labels, line
            labels[label[1]] = re.sub(r"\\.", lambda found: UNESCAPED[found[0]], label[2])
            rest = rest[label.end() :]
            assert rest[0] in ",}", line
            if rest[0] == ",":
                rest = rest[1:]
                assert not rest.startswith("}"), line
        rest = rest[1:]
    assert rest.startswith(" "), line
    assert NUMBER.fullmatch(rest[1:]), line
    return name[0], labels, float(rest[1:].replace("Inf", "inf"))


def parse(text):
    """{family: (kind, {(sample, labels): value})} of Prometheus text, version 0.0.4."""
    assert text.endswith("\n") and "\r" not in text
    families = {}
    current = None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current, _ = line[len("# HELP ") :].split(" ", 1)
            assert NAME.fullmatch(current) and current not in families, line
            families[current] = [None, {}]
        elif line.startswith("# TYPE "):
            name, kind = line[len("# TYPE ") :].split(" ")
            assert name == current and families[name] == [None, {}], line
            assert kind in ("counter", "gauge", "histogram"), line
            families[name][0] = kind
        else:
            name, labels, value = parse_sample(line)
            kind, samples = families[current]
            suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            assert name in [current + suffix for suffix in suffixes], line
            key = (name, tuple(sorted(labels.items())))
            assert key not in samples, line
            samples[key] = value
            if kind == "counter":
                assert name.endswith("_total") and value >= 0, line
    for name, (kind, samples) in families.items():
        assert samples, name
        if kind == "histogram":
            check_histogram(name, samples)
    return families


def check_histogram(name, samples):
    series = {}
    for (sample, labels), value in samples.items():
        own = tuple(pair for pair in labels if pair[0] != "le")
        found = series.setdefault(own, {"buckets": []})
        if sample == name + "_bucket":
            found["buckets"].append((float(dict(labels)["le"].replace("Inf", "inf")), value))
        else:
            found[sample[len(name) + 1 :]] = value
    for found in series.values():
        limits = [limit for limit, _ in found["buckets"]]
        counts = [count for _, count in found["buckets"]]
        assert limits == sorted(set(limits)) and limits[-1] == math.inf
        assert counts == sorted(counts) and counts[-1] == found["count"]
        assert found["count"] > 0 or found["sum"] == 0


class Metrics:
    def __init__(self, text):
        self.families = parse(text)

    def value(self, name, **labels):
        family = re.sub("_(count|sum|bucket)$", "", name) if name not in self.families else name
        found = [
            value
            for (sample, own), value in self.families[family][1].items()
            if sample == name and labels.items() <= dict(own).items()
        ]
        assert len(found) == 1, (name, labels, found)
        return found[0]

    def requests(self, kind):
        return self.value("penstock_mount_request_seconds_count", request=kind)

    def errors(self, name):
        return self.value("penstock_mount_errors_total", error=name)


def metrics_of(volume):
    return Metrics(volume.run("volume", "show", volume.name, "--metrics").stdout)


def test_the_parser_is_strict():
    good = '# HELP a_total A.\n# TYPE a_total counter\na_total{x="1",y="\\"\\n"} 3\n'
    assert parse(good)["a_total"][1] == {("a_total", (("x", "1"), ("y", '"\n'))): 3}
    for bad in (
        good + 'a_total{x="1",y="\\"\\n"} 4\n',  # Twice.
        good.replace('"1",y', '"1"y'),
        good.replace("} 3", "} 3x"),
        good.replace("} 3", "}3"),
        good.replace('x="1"', 'x="1"",'),
        good.replace("a_total{", "b_total{"),
        good.replace("counter", "count"),
        good[:-1],
    ):
        with pytest.raises((AssertionError, KeyError, ValueError)):
            parse(bad)


def test_counts_are_what_was_done(volume):
    volume.mount()
    (volume.folder / "first").touch()  # With it the kernel learns how files are made here.
    before = metrics_of(volume)
    for number in range(10):
        (volume.folder / f"file-{number}").write_bytes(os.urandom(100_000))
    with open(volume.folder / "synced", "wb") as file:
        file.write(b"x" * 5_000)
        file.flush()
        os.fsync(file.fileno())
    os.rename(volume.folder / "synced", volume.folder / "renamed")
    os.unlink(volume.folder / "renamed")
    (volume.folder / "folder").mkdir()
    after = metrics_of(volume)

    def grown(name, **labels):
        return after.value(name, **labels) - before.value(name, **labels)

    assert after.requests("create") - before.requests("create") == 12
    assert after.requests("write") - before.requests("write") >= 11
    assert after.requests("fsync") - before.requests("fsync") == 1
    assert after.requests("rename") - before.requests("rename") == 1
    assert after.requests("unlink") - before.requests("unlink") == 1
    assert grown("penstock_mount_written_bytes_total") == 1_005_000
    assert 1_005_000 <= grown("penstock_volume_journal_bytes_total") < 1_100_000
    assert grown("penstock_volume_journal_sync_seconds_count") >= 1
    assert grown("penstock_volume_connections_total") >= 1
    assert after.value("penstock_volume_connections") >= 1  # The one that asks.
    assert after.value("penstock_volume_journal_limit_bytes") == 4 << 30
    assert after.value("penstock_volume_failed") == 0
    assert after.value("penstock_mount_slow_requests_total") == 0


def test_reads_come_from_the_store_once(volume):
    volume.mount()
    content = {f"file-{number}": os.urandom(100_000) for number in range(10)}
    for name, data in content.items():
        (volume.folder / name).write_bytes(data)
    volume.remount()
    for name, data in content.items():
        assert (volume.folder / name).read_bytes() == data
    metrics = metrics_of(volume)
    assert metrics.value("penstock_mount_read_bytes_total") >= 1_000_000
    assert metrics.value("penstock_volume_load_bytes_total") >= 1_000_000
    assert metrics.value("penstock_volume_frame_misses_total") > 0
    assert metrics.requests("read") >= 10
    assert metrics.requests("lookup") >= 10
    assert metrics.value("penstock_volume_frame_bytes") > 0
    assert metrics.value("penstock_volume_pending_bytes") == 0


def test_content_that_waits_is_seen_until_it_is_stored(volume):
    volume.mount()
    (volume.folder / "file").write_bytes(os.urandom(300_000))
    assert 300_000 <= metrics_of(volume).value("penstock_volume_pending_bytes") < 310_000
    os.setxattr(volume.folder, "system.penstock.drain", b"1")
    deadline = time.monotonic() + 60
    while metrics_of(volume).value("penstock_volume_pending_bytes") > 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    metrics = metrics_of(volume)
    assert metrics.value("penstock_volume_upload_bytes_total") >= 300_000
    assert metrics.value("penstock_volume_upload_seconds_count") >= 1
    assert metrics.value("penstock_volume_upload_failures_total") == 0
    assert metrics.value("penstock_volume_commit_seconds_count") >= 1


def test_errors_are_counted_by_their_number(volume):
    volume.mount()
    (volume.folder / "folder").mkdir()
    (volume.folder / "folder/file").write_bytes(b"x")
    before = metrics_of(volume)
    for _ in range(3):
        with pytest.raises(OSError) as failed:
            os.rmdir(volume.folder / "folder")
        assert failed.value.errno == errno.ENOTEMPTY
    with contextlib.suppress(OSError):
        os.getxattr(volume.folder / "folder", "user.none")
    after = metrics_of(volume)
    assert after.errors("ENOTEMPTY") - before.errors("ENOTEMPTY") == 3
    assert after.errors("ENODATA") - before.errors("ENODATA") == 1
    assert after.errors("EIO") == 0


def test_every_sample_says_of_which_volume(volume):
    volume.mount()
    for kind, samples in metrics_of(volume).families.values():
        assert kind
        assert all(dict(labels)["volume"] == volume.name for _, labels in samples)


def test_a_volume_that_nobody_has_open_has_metrics_too(volume):
    metrics = metrics_of(volume)
    assert metrics.value("penstock_volume_pending_bytes") == 0


def test_the_file_is_there_while_it_is_mounted(volume, tmp_path):
    path = tmp_path / "train.prom"
    volume.mount("--metrics-file", path)
    assert Metrics(path.read_text()).value("penstock_volume_failed", volume="train") == 0
    assert path.stat().st_mode & 0o777 == 0o644
    first = path.stat().st_ino
    (volume.folder / "file").write_bytes(b"x" * 1000)
    deadline = time.monotonic() + 60
    while path.stat().st_ino == first:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    written = Metrics(path.read_text()).value("penstock_mount_written_bytes_total")
    assert written == 1000
    volume.umount()
    assert not path.exists() and not list(tmp_path.glob("*.tmp"))


def test_a_file_that_cannot_be_written_is_refused(volume, tmp_path):
    done = volume.run(
        "mount", volume.name, volume.folder, "--metrics-file", tmp_path / "no/a.prom", check=False
    )
    assert done.returncode != 0 and "--metrics-file" in done.stderr
    assert not is_mounted(volume.folder)
    inside = volume.folder / "a.prom"
    done = volume.run(
        "mount", volume.name, volume.folder, "--metrics-file", inside, check=False, timeout=30
    )
    assert done.returncode == 2 and "in the mount itself" in done.stderr
    assert not is_mounted(volume.folder)


def test_slow_request_takes_a_time(volume):
    done = volume.run("mount", volume.name, volume.folder, "--slow-request", "5", check=False)
    assert done.returncode == 2 and "--slow-request" in done.stderr
    volume.mount("--slow-request", "0")
    volume.remount("-o", "slow_request=30s")
