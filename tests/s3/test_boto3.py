"""Our S3 store and boto3, an independent client: each reads what the other wrote.

Needs $PENSTOCK_TEST_S3 with $AWS_* (see tests/s3/run) and $S3_TOOL, the s3_tool program.
"""

import hashlib
import os
import random
import subprocess
import uuid

import boto3
import pytest
from botocore.config import Config

ODD_KEYS = [
    "plain",
    "with space",
    "plus+plus",
    "percent%41%",
    "quotes'\"",
    "umlaut-äöü",
    "日本語/キー",
    "emoji-😀",
    "amp&lt<gt>",
    "question?mark#hash",
    "semi;colon:at@",
    "a/b/c/d",
    "~tilde_under-dash.dot",
]


@pytest.fixture(scope="module")
def s3():
    return boto3.client(
        "s3",
        endpoint_url=os.environ["PENSTOCK_TEST_S3"],
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )


@pytest.fixture
def bucket(s3):
    name = f"boto-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    return name


def tool(verb, bucket, *words, data=b""):
    command = [os.environ["S3_TOOL"], verb, f"s3://{bucket}", *words]
    done = subprocess.run(command, input=data, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def names(output):
    return [name.decode() for name in output.split(b"\0")[:-1]]


def boto_keys(s3, bucket, **arguments):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **arguments)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def test_ours_read_by_boto3(s3, bucket):
    for key in ODD_KEYS:
        tool("put", bucket, key, data=f"of {key}".encode())
    assert sorted(boto_keys(s3, bucket)) == sorted(ODD_KEYS)
    for key in ODD_KEYS:
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == f"of {key}".encode()


def test_theirs_read_by_us(s3, bucket):
    for key in ODD_KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=f"of {key}".encode())
    assert names(tool("list", bucket, "")) == sorted(ODD_KEYS, key=str.encode)
    for key in ODD_KEYS:
        assert tool("get", bucket, key) == f"of {key}".encode()


def test_multipart_both_ways(s3, bucket, tmp_path):
    data = random.Random(1).randbytes(37 * 1024 * 1024 + 11)
    tool("upload", bucket, "ours", data=data)
    theirs = s3.get_object(Bucket=bucket, Key="ours")
    assert theirs["ETag"].strip('"').endswith("-3")
    assert hashlib.sha256(theirs["Body"].read()).digest() == hashlib.sha256(data).digest()
    source = tmp_path / "source"
    source.write_bytes(data)
    s3.upload_file(str(source), bucket, "theirs")
    assert tool("get", bucket, "theirs") == data


def test_copy_and_remove_seen_by_boto3(s3, bucket):
    s3.put_object(Bucket=bucket, Key="from + ä", Body=b"copied")
    tool("copy", bucket, "from + ä", "to % &")
    assert s3.get_object(Bucket=bucket, Key="to % &")["Body"].read() == b"copied"
    tool("remove", bucket, "from + ä", "to % &")
    assert boto_keys(s3, bucket) == []


def test_kept_by_us_seen_by_boto3(s3, bucket):
    tool("keep", bucket, "put", "1700000000123456789", "0644", data=b"x")
    tool("keep-parts", bucket, "parts", "1700000000500000000", "0755", data=bytes(17 * 1024 * 1024))
    tool("copy", bucket, "parts", "copy")
    tool("keep", bucket, "old", "-1000000000", "0", data=b"x")
    expected = {
        "put": {"mtime": "1700000000.123456789", "mode": "644"},
        "parts": {"mtime": "1700000000.5", "mode": "755"},
        "copy": {"mtime": "1700000000.5", "mode": "755"},
        "old": {"mtime": "-1", "mode": "0"},
    }
    for key, metadata in expected.items():
        assert s3.head_object(Bucket=bucket, Key=key)["Metadata"] == metadata
    tool("put", bucket, "put", data=b"y")
    assert s3.head_object(Bucket=bucket, Key="put")["Metadata"] == {}


@pytest.mark.parametrize(
    "metadata, kept",
    [
        ({"mtime": "1700000000.123456789", "mode": "0100644"}, "1700000000123456789 644"),
        ({"mtime": "1700000000", "mode": "4755", "other": "x"}, "1700000000000000000 755"),
        ({"mtime": "yesterday", "mode": "rw-r--r--"}, "- -"),
        ({"mtime": "1e9", "mode": "33188"}, "- -"),
        ({"mtime": "99999999999999999999", "mode": "040755"}, "- -"),
        ({"Mtime": "5.25"}, "5250000000 -"),
        ({}, "- -"),
    ],
)
def test_kept_by_others_read_by_us(s3, bucket, metadata, kept):
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata=metadata)
    assert tool("kept", bucket, "k").decode().strip() == kept


def test_order_of_2500_keys(s3, bucket):
    shuffled = random.Random(2)
    letters = "abz019 -_.~+%ä日"
    keys = set()
    while len(keys) < 2500:
        count = shuffled.randint(1, 3)
        parts = ["".join(shuffled.choices(letters, k=shuffled.randint(1, 6))) for _ in range(count)]
        if not any(part in (".", "..") for part in parts):
            keys.add("/".join(parts))
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    assert names(tool("list", bucket, "")) == sorted(keys, key=str.encode)
    prefix = "a"
    expected = sorted((key for key in keys if key.startswith(prefix)), key=str.encode)
    assert names(tool("list", bucket, prefix)) == expected
    folders = {key.split("/")[0] + "/" for key in keys if "/" in key}
    assert names(tool("folders", bucket, "")) == sorted(folders, key=str.encode)
