"""`penstock sync` as people run it: what arrives, what it refuses, and what it leaves behind."""

import hashlib
import json
import os
import pathlib
import random
import signal
import socket
import stat
import subprocess
import threading
import time
import uuid

import pytest

pytest_plugins = ["s3_servers"]

ROOT = pathlib.Path(__file__).resolve().parent.parent
PENSTOCK = os.environ.get("PENSTOCK_BIN", str(ROOT / "build/release/src/cli/penstock"))
KIB = 1 << 10
MIB = 1 << 20


def sync(*arguments, check=True, env=None):
    done = subprocess.run(
        [PENSTOCK, "sync", *map(os.fsencode, map(os.fspath, map(as_path, arguments)))],
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, **(env or {})},
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


def as_path(argument):
    return argument if isinstance(argument, (str, bytes, os.PathLike)) else str(argument)


def summary(*arguments, **options):
    done = sync(*arguments, "--json", **options)
    return json.loads(done.stdout.splitlines()[-1])["summary"]


def picture(root, times=True):
    """All below a directory: kind, contents, mode and time of change."""
    seen = {}
    root = os.fsencode(root)
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            info = os.lstat(path)
            key = os.path.relpath(path, root)
            if stat.S_ISLNK(info.st_mode):
                seen[key] = ("link", os.readlink(path))
            elif stat.S_ISDIR(info.st_mode):
                seen[key] = ("folder", stat.S_IMODE(info.st_mode))
            elif stat.S_ISREG(info.st_mode):
                with open(path, "rb") as file:
                    contents = hashlib.sha256(file.read()).hexdigest()
                time_and_mode = (info.st_mtime_ns, stat.S_IMODE(info.st_mode)) if times else ()
                seen[key] = ("file", contents, *time_and_mode)
            else:
                seen[key] = ("other",)
    return seen


def unfinished(root):
    return [path for path in pathlib.Path(root).rglob(".penstock-tmp-*")]


def fill(root, links=True, odd=True, large=True):
    root = pathlib.Path(root)
    root.mkdir(parents=True)
    maker = random.Random(1)
    sizes = [0, 1, 100, 100 * KIB, 3 * MIB, 68 * MIB] if large else [0, 1, 100]
    for index, size in enumerate(sizes):
        path = root / f"dir{index % 3}" / f"file{index}.bin"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(maker.randbytes(size))
        os.utime(path, ns=(0, 1_500_000_000_123_456_789 + index))
        path.chmod(0o600 + index)
    if odd:
        for name in [b"new\nline", b"\xff\xfe", b"sp ace", b"*?[x]", "日本語".encode(), b"-dash"]:
            with open(os.path.join(os.fsencode(root), name), "wb") as file:
                file.write(name)
    if links:
        (root / "hollow").mkdir(mode=0o750)
        (root / "inside").symlink_to("dir0/file0.bin")
        (root / "out").symlink_to("/etc/passwd")
        (root / "dangling").symlink_to("no\nwhere")


def wait_until(condition, process, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, "it ended too early"
        assert time.monotonic() < deadline, "it did not get so far"
        time.sleep(0.005)


def test_local_to_local(tmp_path):
    fill(tmp_path / "from")
    report = summary(tmp_path / "from", tmp_path / "new" / "to")
    assert picture(tmp_path / "new" / "to") == picture(tmp_path / "from")
    assert report["copied"] == 15
    assert report["failed"] == 0
    again = summary(tmp_path / "from", tmp_path / "new" / "to")
    assert again["copied"] == 0
    assert again["same"] == 15


def test_checksum_delete_and_filters(tmp_path):
    fill(tmp_path / "from")
    sync(tmp_path / "from", tmp_path / "to")
    changed = tmp_path / "to" / "dir1" / "file1.bin"
    before = changed.stat()
    changed.write_bytes(b"X")
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    (tmp_path / "to" / "extra").mkdir()
    (tmp_path / "to" / "extra" / "file").write_text("x")
    (tmp_path / "to" / "extra.keep").write_text("x")
    assert summary(tmp_path / "from", tmp_path / "to")["copied"] == 0
    report = summary(
        tmp_path / "from", tmp_path / "to", "--checksum", "--delete", "--exclude", "*.keep"
    )
    assert report["copied"] == 1
    assert report["deleted"] == 2  # The directory too.
    assert (tmp_path / "to" / "extra.keep").exists()
    (tmp_path / "to" / "extra.keep").unlink()
    assert picture(tmp_path / "to") == picture(tmp_path / "from")


def test_the_order_of_filters_counts(tmp_path):
    fill(tmp_path / "from", links=False, odd=False)
    only = sync(
        tmp_path / "from", tmp_path / "to", "--include", "file1*", "--exclude", "*", "--dry-run"
    )
    assert only.stdout.splitlines()[0] == b"copy dir1/file1.bin (1 B, new)"
    assert len(only.stdout.splitlines()) == 2
    none = sync(
        tmp_path / "from", tmp_path / "to", "--exclude", "*", "--include", "file1*", "--dry-run"
    )
    assert len(none.stdout.splitlines()) == 1


def test_dry_run_writes_nothing(tmp_path):
    fill(tmp_path / "from")
    done = sync(tmp_path / "from", tmp_path / "to", "--dry-run")
    assert b"copy new\\x0aline (8 B, new)" in done.stdout
    assert not (tmp_path / "to").exists()
    sync(tmp_path / "from", tmp_path / "to")
    (tmp_path / "to" / "extra").write_text("x")
    before = picture(tmp_path / "to")
    done = sync(tmp_path / "from", tmp_path / "to", "--dry-run", "--delete")
    assert done.stdout.splitlines()[0] == b"delete extra"
    assert picture(tmp_path / "to") == before


def test_one_file(tmp_path):
    fill(tmp_path / "from")
    sync(tmp_path / "from/dir2/file5.bin", tmp_path / "to")
    assert (tmp_path / "to" / "file5.bin").stat().st_size == 68 * MIB
    # As cp would: a file in the place of a file, and into a directory or what will be one.
    sync(tmp_path / "from/dir1/file1.bin", tmp_path / "to" / "file5.bin")
    assert (tmp_path / "to" / "file5.bin").stat().st_size == 1
    assert summary(tmp_path / "from/dir1/file1.bin", tmp_path / "to" / "file5.bin")["same"] == 1
    sync(tmp_path / "from/dir1/file1.bin", tmp_path / "to" / "new")
    assert (tmp_path / "to" / "new" / "file1.bin").stat().st_size == 1


def test_special_files_are_skipped_and_named(tmp_path):
    fill(tmp_path / "from", links=False, large=False)
    os.mkfifo(tmp_path / "from" / "pipe")
    done = sync(tmp_path / "from", tmp_path / "to")
    assert b"skipped pipe: neither a file nor a directory" in done.stderr
    assert not (tmp_path / "to" / "pipe").exists()
    alone = sync(tmp_path / "from" / "pipe", tmp_path / "to", check=False)
    assert alone.returncode == 2
    assert b"neither a directory nor a regular file" in alone.stderr


def test_unfinished_files_of_the_source_are_skipped_and_named(tmp_path):
    fill(tmp_path / "from", links=False, odd=False, large=False)
    (tmp_path / "from" / "dir0" / ".penstock-tmp-x").write_text("x")
    done = sync(tmp_path / "from", tmp_path / "to")
    assert b"skipped dir0/.penstock-tmp-x: an unfinished file of a sync" in done.stderr
    assert b"1 skipped" in done.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files_are_failures(tmp_path):
    fill(tmp_path / "from", links=False)
    (tmp_path / "from" / "dir0" / "file0.bin").chmod(0)
    (tmp_path / "from" / "dir1").chmod(0)
    done = sync(tmp_path / "from", tmp_path / "to", check=False)
    (tmp_path / "from" / "dir1").chmod(0o755)
    assert done.returncode == 1
    assert b"dir0/file0.bin" in done.stderr
    assert b"dir1" in done.stderr


def test_read_only_directories_are_filled_first(tmp_path):
    fill(tmp_path / "from", links=False)
    (tmp_path / "from" / "dir0").chmod(0o555)
    sync(tmp_path / "from", tmp_path / "to")
    assert picture(tmp_path / "to") == picture(tmp_path / "from")
    for side in ("from", "to"):
        (tmp_path / side / "dir0").chmod(0o755)


@pytest.fixture(name="unprivileged")
def fixture_unprivileged(tmp_path):
    """A folder of somebody who is not root, and what a command of theirs begins with."""
    home = tmp_path / "home"
    home.mkdir()
    if os.geteuid() != 0:
        return home, []
    os.chown(home, 65534, 65534)
    for path in (tmp_path, *tmp_path.parents):
        if path != pathlib.Path("/") and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*prefix, PENSTOCK, "--version"], capture_output=True).returncode != 0:
        pytest.skip("nobody cannot run penstock here")
    return home, prefix


def test_read_only_directories_are_synced_more_than_once(unprivileged):
    home, prefix = unprivileged

    def run(script):
        subprocess.run([*prefix, "sh", "-ec", script], cwd=home, check=True, timeout=60)

    again = f"{PENSTOCK} sync from to --delete --quiet"
    run("mkdir -p from/d/e; echo 1 > from/d/f; echo 1 > from/d/e/g; chmod 555 from/d/e from/d from")
    run(again)
    assert picture(home / "to") == picture(home / "from")
    run("chmod 755 from/d/e from/d from; echo 22 > from/d/f; echo 3 > from/d/new; rm from/d/e/g")
    run("chmod 555 from/d/e from/d from")
    run(again)
    assert picture(home / "to") == picture(home / "from")
    assert stat.S_IMODE((home / "to").stat().st_mode) == 0o555
    run("chmod -R u+w from to")


def test_failures_have_their_exit_code(tmp_path):
    fill(tmp_path / "from", links=False, odd=False)
    (tmp_path / "to" / "dir1" / "file1.bin").mkdir(parents=True)
    (tmp_path / "to" / "extra").write_text("x")
    done = sync(tmp_path / "from", tmp_path / "to", check=False)
    assert done.returncode == 1
    assert b"dir1/file1.bin" in done.stderr
    assert b"1 failed" in done.stdout
    assert len([p for p in (tmp_path / "to").rglob("*.bin") if p.is_file()]) == 5
    sync(tmp_path / "from", tmp_path / "to", "--delete")
    assert picture(tmp_path / "to") == picture(tmp_path / "from")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "FROM is required"),
        (["from"], 2, "TO is required"),
        (["from", "to", "--jobs", "0"], 2, "--jobs"),
        (["from", "to", "--jobs", "2000"], 2, "--jobs"),
        (["from", "to", "--bandwidth", "fast"], 2, "--bandwidth"),
        (["from", "to", "--bandwidth", "0"], 2, "--bandwidth"),
        (["from", "to", "--memory", "1MiB"], 2, "--memory"),
        (["from", "to", "--exclude", "a//b"], 2, "a//b"),
        (["from", "to", "--stripe", "4"], 2, "Lustre"),
        (["from", "to", "--no-such-option"], 2, "--no-such-option"),
        (["from", "to", "--verbose", "--quiet"], 2, "--verbose excludes --quiet"),
        (["gs://bucket/x", "to"], 2, "gs://bucket/x"),
        (["missing", "to"], 1, "missing: no such file"),
        (["from", "from"], 2, "are the same"),
        (["from", "from/dir0"], 2, "one inside the other"),
        (["from/dir0", "from"], 2, "one inside the other"),
        (["from", "from/dir0/../dir0"], 2, "one inside the other"),
        (["from", "alias/dir0"], 2, "one inside the other"),
        (["from", "from/dir0/file0.bin"], 2, "is a file"),
    ],
)
def test_wrong_arguments(tmp_path, arguments, code, text):
    fill(tmp_path / "from", links=False, odd=False, large=False)
    (tmp_path / "alias").symlink_to("from")
    before = picture(tmp_path)
    done = subprocess.run(
        [PENSTOCK, "sync", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code, done
    assert text in done.stderr
    assert picture(tmp_path) == before


def start(*arguments):
    return subprocess.Popen(
        [PENSTOCK, "sync", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def interrupted_halfway(tmp_path, signal_number):
    fill(tmp_path / "from")
    process = start(tmp_path / "from", tmp_path / "to", "--bandwidth", "10MB")
    # The largest file is under way: its unfinished form is there.
    wait_until(lambda: (tmp_path / "to").exists() and unfinished(tmp_path / "to"), process)
    wait_until(lambda: any(p.is_file() for p in (tmp_path / "to").rglob("*.bin")), process)
    process.send_signal(signal_number)
    process.communicate(timeout=30)
    return process.returncode


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_half_written(tmp_path, signal_number):
    begun = time.monotonic()
    assert interrupted_halfway(tmp_path, signal_number) == 130
    assert time.monotonic() - begun < 20
    assert unfinished(tmp_path / "to") == []
    whole = picture(tmp_path / "from")
    there = picture(tmp_path / "to")
    assert len(there) < len(whole)
    files = {key: value for key, value in there.items() if value[0] == "file"}
    assert files
    for key, value in files.items():
        assert whole[key] == value
    sync(tmp_path / "from", tmp_path / "to")
    assert picture(tmp_path / "to") == whole


def test_a_killed_run_is_continued(tmp_path):
    assert interrupted_halfway(tmp_path, signal.SIGKILL) == -signal.SIGKILL
    whole = picture(tmp_path / "from")
    for key, value in picture(tmp_path / "to").items():
        assert b".penstock-tmp-" in key or whole[key] == value or value[0] == "folder"
    sync(tmp_path / "from", tmp_path / "to")
    for leftover in unfinished(tmp_path / "to"):
        leftover.unlink()
    assert picture(tmp_path / "to") == whole


def test_quiet_and_verbose(tmp_path):
    fill(tmp_path / "from", links=False, odd=False)
    assert sync(tmp_path / "from", tmp_path / "to", "--quiet").stdout == b""
    verbose = sync(tmp_path / "from", tmp_path / "again", "--verbose").stdout.splitlines()
    assert len(verbose) == 7
    assert b"copy dir0/file3.bin (100 KiB, new)" in verbose
    lines = sync(tmp_path / "from", tmp_path / "third", "--verbose", "--json").stdout.splitlines()
    actions = [json.loads(line) for line in lines[:-1]]
    assert {"action": "copy", "key": "dir0/file3.bin", "bytes": 102400, "why": "new"} in actions


def test_output_that_nobody_reads_stops_nothing(tmp_path):
    fill(tmp_path / "from", links=False, odd=False)
    process = start(tmp_path / "from", tmp_path / "to", "--verbose")
    process.stdout.close()
    process.stderr.read()
    assert process.wait(timeout=60) == 0
    assert picture(tmp_path / "to") == picture(tmp_path / "from")


# Against the server that tests/s3/run starts.


@pytest.fixture
def bucket(s3):
    name = f"sync-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    return name


def keys_of(s3, bucket, prefix=""):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def uploads_of(s3, bucket):
    return s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])


def fill_for_s3(root):
    """Names that both sides can hold."""
    fill(root, links=False)
    os.unlink(os.path.join(os.fsencode(root), b"\xff\xfe"))


def test_s3_up_and_down(s3, bucket, tmp_path):
    fill_for_s3(tmp_path / "from")
    report = summary(tmp_path / "from", f"s3://{bucket}/some/prefix")
    assert report["copied"] == 11
    assert summary(tmp_path / "from", f"s3://{bucket}/some/prefix/")["copied"] == 0
    large = s3.head_object(Bucket=bucket, Key="some/prefix/dir2/file5.bin")
    assert large["ETag"].strip('"').endswith("-5")  # In parts.
    assert summary(f"s3://{bucket}/some/prefix", tmp_path / "to")["copied"] == 11
    assert picture(tmp_path / "to") == picture(tmp_path / "from")
    assert summary(f"s3://{bucket}/some/prefix", tmp_path / "to")["copied"] == 0
    assert uploads_of(s3, bucket) == []


def test_s3_changes_go_both_ways(s3, bucket, tmp_path):
    fill_for_s3(tmp_path / "from")
    sync(tmp_path / "from", f"s3://{bucket}")
    (tmp_path / "from" / "dir1" / "file1.bin").write_bytes(b"Y")  # Of the same size, and newer.
    assert summary(tmp_path / "from", f"s3://{bucket}")["copied"] == 1
    sync(f"s3://{bucket}", tmp_path / "to")
    s3.put_object(Bucket=bucket, Key="dir1/file1.bin", Body=b"Z")
    assert summary(f"s3://{bucket}", tmp_path / "to")["copied"] == 1
    assert (tmp_path / "to" / "dir1" / "file1.bin").read_bytes() == b"Z"
    assert summary(f"s3://{bucket}", tmp_path / "to")["copied"] == 0


def test_s3_of_others_keeps_the_time_of_the_object(s3, bucket, tmp_path):
    s3.put_object(Bucket=bucket, Key="a/b", Body=b"theirs")
    sync(f"s3://{bucket}", tmp_path / "to")
    modified = s3.head_object(Bucket=bucket, Key="a/b")["LastModified"].timestamp()
    assert int((tmp_path / "to" / "a" / "b").stat().st_mtime) == int(modified)
    assert summary(f"s3://{bucket}", tmp_path / "to")["same"] == 1


def test_s3_delete(s3, bucket, tmp_path):
    fill_for_s3(tmp_path / "from")
    sync(tmp_path / "from", f"s3://{bucket}/p")
    s3.put_object(Bucket=bucket, Key="p/extra", Body=b"x")
    s3.put_object(Bucket=bucket, Key="p/dir1/extra + ä", Body=b"x")
    s3.put_object(Bucket=bucket, Key="other", Body=b"x")
    assert summary(tmp_path / "from", f"s3://{bucket}/p")["deleted"] == 0
    assert summary(tmp_path / "from", f"s3://{bucket}/p", "--delete")["deleted"] == 2
    assert len(keys_of(s3, bucket, "p/")) == 11
    assert keys_of(s3, bucket, "other") == ["other"]
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "extra").write_text("x")
    assert summary(f"s3://{bucket}/p", tmp_path / "to", "--delete")["deleted"] == 1
    assert picture(tmp_path / "to") == picture(tmp_path / "from")


def test_s3_checksum(s3, bucket, tmp_path):
    fill_for_s3(tmp_path / "from")
    sync(tmp_path / "from", f"s3://{bucket}")
    for name in ("dir1/file1.bin", "dir2/file5.bin"):  # One of them in parts.
        path = tmp_path / "from" / name
        before = path.stat()
        with open(path, "r+b") as file:
            file.write(b"!")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert summary(tmp_path / "from", f"s3://{bucket}")["copied"] == 0
    assert summary(tmp_path / "from", f"s3://{bucket}", "--checksum")["copied"] == 2
    assert summary(tmp_path / "from", f"s3://{bucket}", "--checksum")["copied"] == 0
    sync(f"s3://{bucket}", tmp_path / "to")
    assert picture(tmp_path / "to") == picture(tmp_path / "from")
    assert summary(f"s3://{bucket}", tmp_path / "to", "--checksum")["copied"] == 0


def test_s3_to_s3(s3, bucket, tmp_path):
    fill_for_s3(tmp_path / "from")
    sync(tmp_path / "from", f"s3://{bucket}/a")
    other = f"{bucket}-b"
    s3.create_bucket(Bucket=other)
    assert summary(f"s3://{bucket}/a", f"s3://{other}/b")["copied"] == 11
    assert summary(f"s3://{bucket}/a", f"s3://{other}/b")["copied"] == 0
    assert summary(f"s3://{bucket}/a", f"s3://{other}/b", "--checksum")["copied"] == 0
    assert summary(f"s3://{bucket}/a", f"s3://{bucket}/c")["copied"] == 11
    for address in (f"s3://{other}/b", f"s3://{bucket}/c"):
        to = tmp_path / address.replace("/", "_")
        sync(address, to)
        assert picture(to) == picture(tmp_path / "from")
    refused = sync(f"s3://{bucket}/a", f"s3://{bucket}/a/b", check=False)
    assert refused.returncode == 2


def test_s3_markers_and_odd_keys(s3, bucket, tmp_path):
    for key in ["dir/", "dir/file", "a//b", "up/../x", "fine", "fine/below", "fine/deep/er"]:
        body = b"" if key == "dir/" else key.encode()
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    done = sync(f"s3://{bucket}", tmp_path / "to", check=False)
    assert done.returncode == 1
    assert b"skipped dir/: an empty key" in done.stderr
    for name in (b"a//", b"up/../", b"fine/below: 'fine' and 'fine/'", b"fine/deep/er: 'fine'"):
        assert name in done.stderr, done.stderr
    assert {key for key, value in picture(tmp_path / "to").items() if value[0] == "file"} == {
        b"dir/file",
        b"fine",
    }


def test_s3_a_folder_whose_first_key_is_a_mark(s3, bucket, tmp_path):
    for key in ["train/", "train/a", "odd//b", "odd/ok"]:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    sync(f"s3://{bucket}/train", tmp_path / "to")
    assert (tmp_path / "to" / "a").exists()
    done = sync(f"s3://{bucket}/odd/", tmp_path / "odd", check=False)
    assert done.returncode == 1 and (tmp_path / "odd" / "ok").exists()


def test_s3_bytes_under_a_key_that_ends_with_a_slash_are_a_failure(s3, bucket, tmp_path):
    for key, body in [("p/", b"top"), ("p/dir/", b"12345"), ("p/dir/file", b"f"), ("empty/", b"")]:
        s3.put_object(Bucket=bucket, Key=key, Body=body)
    done = sync(f"s3://{bucket}/p", tmp_path / "to", check=False)
    assert done.returncode == 1
    assert f"{bucket}/p/dir/ ends with '/'".encode() in done.stderr
    assert f"{bucket}/p/ ends with '/'".encode() in done.stderr
    assert b"2 failed" in done.stdout
    assert (tmp_path / "to" / "dir" / "file").read_bytes() == b"f"
    # A folder that a console made, with nothing in it, is an empty one.
    assert summary(f"s3://{bucket}/empty/", tmp_path / "none")["listed"] == 0


def test_s3_delete_names_what_it_cannot_delete(s3, bucket, tmp_path):
    fill_for_s3(tmp_path / "from")
    sync(tmp_path / "from", f"s3://{bucket}/p")
    for key in ("p/dir1/", "p/old/", "p/dir1//x"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    done = sync(tmp_path / "from", f"s3://{bucket}/p", "--delete")
    assert b"skipped old/: only the target has it" in done.stderr
    assert b"skipped dir1//: only the target has it" in done.stderr
    assert b"2 skipped" in done.stdout  # Not the mark of a folder that is there.


def test_s3_keys_that_are_too_long_are_foreseen(s3, bucket, tmp_path):
    folder = tmp_path / "from" / "/".join(["x" * 200] * 4)
    folder.mkdir(parents=True)
    (folder / "fits").write_text("1")
    (folder / ("y" * 200)).write_text("2")
    prefix = "p" * 100
    for options in (["--dry-run"], []):
        done = sync(tmp_path / "from", f"s3://{bucket}/{prefix}", *options, check=False)
        assert done.returncode == 1
        assert b"its path has 1004 bytes: keys in" in done.stderr
        assert b"at most 923" in done.stderr
    assert len(keys_of(s3, bucket)) == 1


def test_json_says_what_kept_it_from_beginning(tmp_path):
    done = sync(tmp_path / "nothere", tmp_path / "to", "--json", check=False)
    assert done.returncode == 1
    assert "nothere" in json.loads(done.stdout)["error"]["detail"]


def test_a_summary_that_cannot_be_written_is_a_failure(tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a").write_bytes(b"a")
    command = [PENSTOCK, "sync", tmp_path / "from", tmp_path / "to", "--json"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and b"No space left" in done.stderr


def test_a_signal_ends_it_while_s3_does_not_answer(tmp_path, silent_s3):
    silent, env = silent_s3
    command = [PENSTOCK, "sync", "s3://bucket-one/x", str(tmp_path / "to")]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as run:
        silent.accept()
        begin = time.monotonic()
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=20) == 130
        assert time.monotonic() - begin < 3


NO_S3 = {
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
    "a page": (
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 13\r\nConnection: close\r\n\r\n<html></html>",
        "is the endpoint right",
    ),
}


@pytest.mark.parametrize("kind", NO_S3)
def test_an_endpoint_that_is_no_s3_is_named_as_such(tmp_path, kind):
    answer, text = NO_S3[kind]
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        env = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "AKIA0123456789",
            "AWS_SECRET_ACCESS_KEY": "secretsecretsecret",
            "AWS_REGION": "us-east-1",
        }
        done = sync("s3://bucket-one/x", tmp_path / "to", check=False, env=env)
        server.shutdown(socket.SHUT_RDWR)
    assert done.returncode == 1
    assert text in done.stderr.decode()
    assert "AWS_ENDPOINT_URL" in done.stderr.decode()


def test_s3_names_that_are_not_utf8_are_failures(s3, bucket, tmp_path):
    fill(tmp_path / "from", links=False)
    done = sync(tmp_path / "from", f"s3://{bucket}", check=False)
    assert done.returncode == 1
    assert b"not UTF-8" in done.stderr
    foreseen = sync(tmp_path / "from", f"s3://{bucket}/other", "--dry-run", check=False)
    assert foreseen.returncode == 1 and b"not UTF-8" in foreseen.stderr
    assert len(keys_of(s3, bucket)) == 11


def test_s3_one_object_and_what_is_missing(s3, bucket, tmp_path):
    s3.put_object(Bucket=bucket, Key="dir/object", Body=b"one")
    sync(f"s3://{bucket}/dir/object", tmp_path / "to")
    assert (tmp_path / "to" / "object").read_bytes() == b"one"
    for address in (f"s3://{bucket}/missing", f"s3://{bucket}/dir/", "s3://no-such-bucket-here"):
        done = sync(address, tmp_path / "none", check=False)
        expected = 0 if address.endswith("/dir/") else 1
        assert done.returncode == expected, done.stderr
    done = sync(tmp_path / "to", "s3://no-such-bucket-here/x", check=False)
    assert done.returncode == 1
    assert b"there is no bucket 'no-such-bucket-here'" in done.stderr
    wrong = sync(
        f"s3://{bucket}",
        tmp_path / "none",
        check=False,
        env={"AWS_SECRET_ACCESS_KEY": "not the right one"},
    )
    assert wrong.returncode == 1
    assert b"secret key" in wrong.stderr
    assert b"not the right one" not in wrong.stderr


def test_s3_an_interrupt_leaves_no_upload(s3, bucket, tmp_path):
    fill_for_s3(tmp_path / "from")
    process = start(tmp_path / "from", f"s3://{bucket}", "--bandwidth", "10MB")
    wait_until(lambda: uploads_of(s3, bucket), process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert uploads_of(s3, bucket) == []
    assert "dir2/file5.bin" not in keys_of(s3, bucket)
    sync(tmp_path / "from", f"s3://{bucket}")
    sync(f"s3://{bucket}", tmp_path / "to")
    assert picture(tmp_path / "to") == picture(tmp_path / "from")
