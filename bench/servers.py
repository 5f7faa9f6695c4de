"""What the comparisons run against: a real S3 server, and a link that makes it a far one."""

import contextlib
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile

import boto3
import botocore.config

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROXY = ROOT / "build/release/bench/delay_proxy"


def free_port():
    """Below those that connections get, any of which could be taken until the server has it."""
    while True:
        port = 18_000 + 2 * secrets.randbelow(7000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class S3Server:
    """`env` reaches it. collect() gives back at once the space of what was deleted."""

    def __init__(self, folder, env):
        self.folder = folder
        self.env = env

    def collect(self):
        """The gateway deletes the tails of large objects later: here that would be memory."""
        if self.folder is None:
            return
        command = ["radosgw-admin", "-c", f"{self.folder}/ceph.conf", "--no-mon-config"]
        command += ["-n", "client.rgw", "gc", "process", "--include-all"]
        subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def s3_server(size_gib, reuse=False):
    """A real server in a folder of its own; with `reuse`, that of $PENSTOCK_TEST_S3 if set."""
    if reuse and "PENSTOCK_TEST_S3" in os.environ:
        yield S3Server(None, {k: v for k, v in os.environ.items() if k.startswith("AWS_")})
        return
    folder = os.path.join(tempfile.gettempdir(), f"bench-s3-{secrets.token_hex(4)}")
    tool = ROOT / "tools/s3-server"
    try:
        os.mkdir(folder, 0o700)
        command = [tool, "up", folder, str(free_port()), "--size", str(size_gib)]
        subprocess.run(command, check=True)
        lines = (pathlib.Path(folder) / "env").read_text().split()
        yield S3Server(folder, dict(word.split("=", 1) for word in lines if "=" in word))
    finally:
        subprocess.run([tool, "down", folder, "--wipe"], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def s3_client(env, connections=32):
    config = botocore.config.Config(
        max_pool_connections=connections, s3={"addressing_style": "path"}
    )
    return boto3.client(
        "s3",
        endpoint_url=env["AWS_ENDPOINT_URL"],
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        region_name=env["AWS_REGION"],
        config=config,
    )


@contextlib.contextmanager
def bucket(server, name):
    """An empty bucket, gone afterwards."""
    client = s3_client(server.env)
    client.create_bucket(Bucket=name)
    try:
        yield name
    finally:
        empty_bucket(server, name)
        client.delete_bucket(Bucket=name)


def empty_bucket(server, name):
    client = s3_client(server.env)
    while True:
        page = client.list_objects_v2(Bucket=name).get("Contents", [])
        if not page:
            break
        keys = [{"Key": entry["Key"]} for entry in page]
        client.delete_objects(Bucket=name, Delete={"Objects": keys, "Quiet": True})
    server.collect()


@contextlib.contextmanager
def far(env, *options):
    """The environment in which the server is behind delay_proxy, with these options."""
    host, port = env["AWS_ENDPOINT_URL"].rsplit(":", 1)
    command = [PROXY, port, *options]
    proxy = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    try:
        line = proxy.stdout.readline()
        if not line:
            raise RuntimeError("delay_proxy did not start")
        yield {**env, "AWS_ENDPOINT_URL": f"{host}:{int(line)}"}
    finally:
        proxy.terminate()
        proxy.wait()
        proxy.stdout.close()
