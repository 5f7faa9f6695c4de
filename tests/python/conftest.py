"""Fixtures of the Python package's tests: the package of the build folder, and datasets made on the
spot.
"""

import io
import os
import pathlib
import random
import struct
import sys
import tarfile

import numpy as np
import pytest
from PIL import Image

BUILD = pathlib.Path(os.environ.get("PENSTOCK_BUILD", "build/release")).resolve()
sys.path.insert(0, str(BUILD / "python"))


@pytest.fixture(autouse=True)
def own_index_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


def add_file(tar, name, data, **kwargs):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in kwargs.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


def write_tar(path, members, format=tarfile.USTAR_FORMAT):
    with tarfile.open(path, "w", format=format) as tar:
        for name, data in members:
            add_file(tar, name, data)
    return path


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def tf_record(data):
    """A record with both of its checksums."""

    def masked(crc):
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(crc32c(length)) + data + masked(crc32c(data))


def jpeg(rng, width, height, quality=90):
    """A picture with smooth parts, edges and noise."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [
        np.sin(x / rng.uniform(5, 80) + y / rng.uniform(5, 80) + c) * 100 + 128 for c in range(3)
    ]
    pixels = np.stack(waves, axis=-1) + np.random.default_rng(rng.randrange(2**32)).normal(
        0, 8, (height, width, 3)
    )
    out = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=quality)
    return out.getvalue()


@pytest.fixture
def shards(tmp_path):
    """Four shards of 25 samples: {number}.txt, {number}.cls and {number}.json."""
    paths = []
    for shard in range(4):
        members = []
        for i in range(shard * 25, shard * 25 + 25):
            members.append((f"{i:06d}.txt", f"sample {i}".encode()))
            members.append((f"{i:06d}.cls", str(i).encode()))
            members.append(
                (
                    f"{i:06d}.json",
                    f'{{"id": {i}, "deep": {{"list": [1, {i * 2}]}}, "x": {i / 4}}}'.encode(),
                )
            )
        paths.append(write_tar(tmp_path / f"train-{shard:06d}.tar", members))
    return paths


@pytest.fixture
def image_shards(tmp_path):
    rng = random.Random(5)
    paths = []
    for shard in range(2):
        members = []
        for i in range(shard * 12, shard * 12 + 12):
            members.append(
                (f"{i:06d}.jpg", jpeg(rng, rng.randrange(60, 300), rng.randrange(60, 300)))
            )
            members.append((f"{i:06d}.cls", str(i).encode()))
        paths.append(write_tar(tmp_path / f"photo-{shard:06d}.tar", members))
    return paths
