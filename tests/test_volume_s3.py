"""Volumes whose content lies in a real S3, mounted, with a cache: also while S3 is away."""

import contextlib
import errno
import os
import re
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest
from mount_tools import Volume, needs_fuse

pytest_plugins = ["s3_servers"]
pytestmark = needs_fuse
MIB = 1 << 20


class Gate:
    """A port that leads to the server, while it is open. Closed, nobody answers there."""

    def __init__(self, address):
        url = urlsplit(address)
        self.server = (url.hostname, url.port)
        self.port = 0
        self.ends = []
        self.open()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def open(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def close(self):
        # Who waits in accept() keeps a socket open that is only closed.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for end in self.ends:
            end.close()
        self.ends.clear()

    def accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
                server = socket.create_connection(self.server)
            except OSError:
                return
            self.ends += [client, server]
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    @staticmethod
    def carry(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def gate(s3, monkeypatch):
    gate = Gate(os.environ["PENSTOCK_TEST_S3"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", gate.url)
    yield gate
    gate.close()


@pytest.fixture
def volume(s3, gate, tmp_path):
    bucket = f"volume-test-{os.getpid()}"
    s3.create_bucket(Bucket=bucket)
    made = Volume(tmp_path / "home", tmp_path / "mnt")
    made.create("--store", f"s3://{bucket}/prefix")
    yield made
    made.close()
    for left in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        s3.delete_object(Bucket=bucket, Key=left["Key"])
    s3.delete_bucket(Bucket=bucket)


def mount(volume, tmp_path, *options):
    options = ("--cache-dir", tmp_path / "cache", "--io-timeout", "3s", *options)
    volume.mount("--writeback-max-age", "200ms", *options)


def wait_until_stored(volume, seconds=60):
    end = time.monotonic() + seconds
    while volume.status()["pending"]["content_bytes"] > 0:
        assert time.monotonic() < end, (volume.status(), volume.log())
        time.sleep(0.05)


def wait_for_log(volume, text, seconds=60):
    end = time.monotonic() + seconds
    while text not in volume.log():
        assert time.monotonic() < end, volume.log()
        time.sleep(0.05)


def failing(volume):
    """What the metrics say of the store: 1 where it fails."""
    text = volume.run("volume", "show", volume.name, "--metrics").stdout
    found = re.findall(r'penstock_volume_store_failing{.*direction="(\w+)".*} (\d)', text)
    return dict(found)


def write(volume, name, size):
    content = os.urandom(size)
    with (volume.folder / name).open("wb") as file:
        file.write(content)
        os.fsync(file.fileno())
    return content


def test_s3_nothing_is_lost_with_the_process(volume, tmp_path):
    mount(volume, tmp_path)
    contents = {"stored": write(volume, "stored", 5 * MIB)}
    wait_until_stored(volume)
    contents["new"] = write(volume, "new", 3 * MIB)
    # Closed is enough, with or without --writeback: it is in the journal.
    contents["closed"] = os.urandom(100_000)
    (volume.folder / "closed").write_bytes(contents["closed"])
    volume.kill()
    volume.umount()
    mount(volume, tmp_path, "--writeback")
    for name, content in contents.items():
        assert (volume.folder / name).read_bytes() == content, name
    wait_until_stored(volume)
    volume.umount()
    assert volume.run("volume", "fsck", volume.name).returncode == 0


def test_s3_goes_away_and_comes_back(volume, tmp_path, gate):
    mount(volume, tmp_path)
    near = write(volume, "near", 5 * MIB)
    wait_until_stored(volume)
    far = write(volume, "far", 5 * MIB)
    wait_until_stored(volume)
    volume.umount()
    mount(volume, tmp_path)
    assert (volume.folder / "near").read_bytes() == near
    volume.umount()  # So that neither the kernel nor the process has it any more.
    gate.close()
    mount(volume, tmp_path, "--writeback-max", "256MiB", "--slow-request", "1s")
    # What is in the cache is read, what is not is an error, in time, that says what and where.
    assert (volume.folder / "near").read_bytes() == near
    begin = time.monotonic()
    with pytest.raises(OSError) as failed:
        (volume.folder / "far").read_bytes()
    assert failed.value.errno == errno.EIO
    assert time.monotonic() - begin < 30
    lines = [line for line in volume.log().splitlines() if "the program gets EIO" in line]
    assert lines and all("s3://" in line for line in lines), volume.log()
    # While it hung there was a line that said so, and why.
    slow = [line for line in volume.log().splitlines() if "is not answered yet" in line]
    assert slow and "read of inode" in slow[0] and "the store" in slow[0], volume.log()
    assert "content cannot be read from the store" in volume.log()
    assert failing(volume) == {"read": "1", "written": "0"}
    # Writing goes on while there is room in the journal,
    kept = write(volume, "kept", 5 * MIB)
    assert (volume.folder / "kept").read_bytes() == kept
    wait_for_log(volume, "stays in the journal for now")
    assert failing(volume) == {"read": "1", "written": "1"}
    # and then it is an error too.
    with pytest.raises(OSError) as failed:
        write(volume, "too-much", 300 * MIB)
    assert failed.value.errno == errno.EIO
    assert "is full, and its content could not be moved to" in volume.log()
    (volume.folder / "too-much").unlink(missing_ok=True)
    os.mkdir(volume.folder / "names-go-on")
    gate.open()
    wait_until_stored(volume)
    assert (volume.folder / "far").read_bytes() == far
    after = write(volume, "after", 5 * MIB)
    for healed in ("is moved to the store again", "is read from the store again", "has room again"):
        assert volume.log().count(healed) == 1, volume.log()
    assert failing(volume) == {"read": "0", "written": "0"}
    volume.umount()  # Whoever could not write was told so at once: nothing is left to tell.
    mount(volume, tmp_path)
    for name, content in (("near", near), ("far", far), ("kept", kept), ("after", after)):
        assert (volume.folder / name).read_bytes() == content, name
    volume.umount()
    assert volume.run("volume", "fsck", volume.name).returncode == 0
