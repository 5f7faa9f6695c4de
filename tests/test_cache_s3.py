"""`penstock cache` before a real S3."""

import json
import os
import signal
import time

import pytest
from cache_command import MIB, entries_of, run, run_json, show, start, wait_for

pytest_plugins = ["cache_command", "s3_servers"]


@pytest.fixture(name="bucket")
def fixture_bucket(s3):
    """The name of a bucket with six objects, and a client for it."""
    name = f"cache-test-{os.getpid()}"
    s3.create_bucket(Bucket=name)
    for i in range(4):
        s3.put_object(Bucket=name, Key=f"sub/train-{i}.tar", Body=os.urandom(5 * MIB + i))
    s3.put_object(Bucket=name, Key="sub/deep/x y", Body=os.urandom(100))
    s3.put_object(Bucket=name, Key="other", Body=b"o")
    yield name, s3
    for left in s3.list_objects_v2(Bucket=name).get("Contents", []):
        s3.delete_object(Bucket=name, Key=left["Key"])
    s3.delete_bucket(Bucket=name)


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
