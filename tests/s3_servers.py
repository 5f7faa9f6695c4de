"""Servers that tests talk to: the real one of tests/s3/run, and one that never answers.

A plugin of pytest: `pytest_plugins = ["s3_servers"]` in a test file brings the fixtures.
"""

import os
import socket

import pytest


@pytest.fixture(scope="module")
def s3():
    """A client of the real server, by somebody else's hand."""
    boto3 = pytest.importorskip("boto3")
    from botocore.config import Config

    if "PENSTOCK_TEST_S3" not in os.environ:
        pytest.skip("needs the server of tests/s3/run")
    return boto3.client(
        "s3",
        endpoint_url=os.environ["PENSTOCK_TEST_S3"],
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )


@pytest.fixture
def silent_s3():
    """A socket that takes connections and never answers, and the environment that makes it S3."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(20)
        yield (
            silent,
            {
                **os.environ,
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
                "AWS_ACCESS_KEY_ID": "a",
                "AWS_SECRET_ACCESS_KEY": "b",
                "AWS_REGION": "us-east-1",
            },
        )
