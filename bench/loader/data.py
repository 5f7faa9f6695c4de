"""Datasets of realistic sizes, made when they are first asked for, gone with their folder."""

import dataclasses
import io
import os
import pathlib
import random
import shutil
import struct
import tarfile

import numpy as np
from PIL import Image

BLOCK = 4 << 20


@dataclasses.dataclass(frozen=True)
class Sizes:
    large: int  # Samples of 150 KB,
    small: int  # and of 5 KB.
    drive_bytes: int  # Of the file that the drive itself is measured with.
    photos: int  # Samples,
    distinct: int  # of so many pictures.
    folder: int  # Files of the class folder.
    tokens: int
    many: int  # Tiny records, to resume in the middle of.


FULL = Sizes(7000, 60_000, 1 << 30, 2400, 400, 20_000, 256 << 20, 10_000_000)
TINY = Sizes(200, 1000, 16 << 20, 100, 20, 300, 2 << 20, 100_000)

LARGE_BYTES = 150_000
SMALL_BYTES = 5_000
CLASSES = 100
SHARDS = 8
SEQ_LENGTH = 4096


def photograph(rng, width=500, height=400, quality=96):
    """Detail at every scale, less of it the finer it is, as photographs have; about 110 KB."""
    pixels = np.full((height, width, 3), 128.0, dtype=np.float32)
    for cells in (2, 4, 8, 16, 32, 64, 128, 256):
        strength = 130 / cells**0.62
        grid = rng.normal(0, strength, (cells * 4 // 5, cells, 3)) * (1.0, 0.8, 0.9)
        for channel in range(3):
            layer = Image.fromarray(grid[..., channel].astype(np.float32))
            pixels[..., channel] += np.asarray(layer.resize((width, height), Image.BICUBIC))
    pixels += rng.normal(0, 6, (height, width, 1))
    out = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=quality)
    return out.getvalue()


def write_tars(folder, samples):
    """Shards of (key, {extension: bytes}) in turn, each with the index that DALI needs."""
    folder.mkdir(parents=True)
    samples = list(samples)
    each = -(-len(samples) // SHARDS)
    for shard in range(-(-len(samples) // each)):
        mine = samples[shard * each : (shard + 1) * each]
        path = folder / f"train-{shard:06}.tar"
        lines = []
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for key, fields in mine:
                words = []
                for extension, content in fields.items():
                    content = content() if callable(content) else content
                    info = tarfile.TarInfo(f"{key}.{extension}")
                    info.size = len(content)
                    place = tar.offset + 512
                    tar.addfile(info, io.BytesIO(content))
                    words.append(f"{extension} {place} {len(content)} {info.name}")
                lines.append(" ".join(words))
        index = folder.parent / f"{folder.name}-dali"
        index.mkdir(exist_ok=True)
        text = "\n".join([f"v1.2 {len(mine)}", *lines, ""])
        (index / f"{path.stem}.idx").write_text(text)


def write_tfrecords(folder, samples):
    """Shards of tf.train.Example with `image` and `label`, and tfrecord2idx's index of each."""
    from tfrecord.writer import TFRecordWriter

    folder.mkdir()
    samples = list(samples)
    each = -(-len(samples) // SHARDS)
    for shard in range(-(-len(samples) // each)):
        path = folder / f"train-{shard:06}.tfrecord"
        writer = TFRecordWriter(str(path))
        for image, label in samples[shard * each : (shard + 1) * each]:
            writer.write({"image": (image, "byte"), "label": (label, "int")})
        writer.close()
        index = folder.parent / f"{folder.name}-dali"
        index.mkdir(exist_ok=True)
        (index / f"{path.stem}.idx").write_text(record_index(path))


def record_index(path):
    lines, place = [], 0
    with open(path, "rb") as file:
        while head := file.read(12):
            size = struct.unpack("<Q", head[:8])[0] + 16
            lines.append(f"{place} {size}\n")
            place += size
            file.seek(place)
    return "".join(lines)


def crc32c_table():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(0x82F63B78), table >> 1)
    return table


def masked_crc32c(numbers):
    """Of each number's eight bytes, as TFRecord masks it."""
    table = crc32c_table()
    crc = np.full(len(numbers), 0xFFFFFFFF, dtype=np.uint32)
    for byte in range(8):
        value = (numbers >> np.uint64(8 * byte)).astype(np.uint32)
        crc = table[(crc ^ value) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    crc ^= np.uint32(0xFFFFFFFF)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


def write_tiny_records(folder, count):
    """Records of eight bytes, their number: 240 MB for ten million."""
    folder.mkdir()
    kind = np.dtype([("size", "<u8"), ("size_crc", "<u4"), ("data", "<u8"), ("crc", "<u4")])
    each = -(-count // SHARDS)
    for shard in range(SHARDS):
        numbers = np.arange(shard * each, min(count, (shard + 1) * each), dtype=np.uint64)
        records = np.empty(len(numbers), dtype=kind)
        records["size"] = 8
        records["size_crc"] = masked_crc32c(np.array([8], dtype=np.uint64))[0]
        records["data"] = numbers
        records["crc"] = masked_crc32c(numbers)
        records.tofile(folder / f"train-{shard:06}.tfrecord")


def write_tokens(prefix, count):
    """Megatron's .bin and .idx: uint16, documents of a thousand tokens or so."""
    rng = np.random.default_rng(3)
    with open(f"{prefix}.bin", "wb") as file:
        for begin in range(0, count, BLOCK):
            rng.integers(0, 50_000, min(BLOCK, count - begin), dtype=np.uint16).tofile(file)
    ends = np.unique(rng.integers(1, count, count // 1000))
    bounds = np.concatenate([[0], ends, [count]]).astype(np.int64)
    lengths = np.diff(bounds).astype(np.int32)
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00")
        file.write(struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1))
        lengths.tofile(file)
        (bounds[:-1] * 2).tofile(file)
        np.arange(len(lengths) + 1, dtype=np.int64).tofile(file)


def files_below(folder):
    return sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())


def settle(folder):
    """Out of the page cache, and into it again by reading: pages that were made by writing lie in
    small pieces, which every reader then pays for.
    """
    buffer = bytearray(BLOCK)
    os.sync()
    for path in files_below(folder):
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.readinto(buffer):
                pass


class Data:
    """Each dataset is made at most once; its folder is the answer."""

    def __init__(self, folder, sizes):
        self.folder = pathlib.Path(folder)
        self.sizes = sizes
        self.pictures = []

    def _made(self, name, make):
        path = self.folder / name
        if not path.exists():
            make(path)
            settle(path)
        return path

    def _photographs(self):
        if not self.pictures:
            rng = np.random.default_rng(1)
            self.pictures = [photograph(rng) for _ in range(self.sizes.distinct)]
        return self.pictures

    def tars(self, kind):
        """Of "large" (150 KB) or "small" (5 KB) samples of random bytes."""
        count = self.sizes.large if kind == "large" else self.sizes.small
        size = LARGE_BYTES if kind == "large" else SMALL_BYTES
        # Sizes differ by up to a tenth, as those of real samples do.
        rng = random.Random(2)
        sizes = [size + rng.randrange(-size // 20, size // 20) for _ in range(count)]
        samples = [(f"{i:08}", {"bin": lambda n=n: os.urandom(n)}) for i, n in enumerate(sizes)]
        return self._made(f"tar-{kind}", lambda path: write_tars(path, samples))

    def photos(self):
        def make(path):
            pictures = self._photographs()
            write_tars(
                path,
                [
                    (f"{i:08}", {"jpg": pictures[i % len(pictures)], "cls": b"%d" % (i % CLASSES)})
                    for i in range(self.sizes.photos)
                ],
            )

        return self._made("photos", make)

    def class_folder(self):
        def make(path):
            pictures = self._photographs()
            for label in range(CLASSES):
                (path / f"class-{label:03}").mkdir(parents=True)
            for i in range(self.sizes.folder):
                name = f"class-{i % CLASSES:03}/{i:06}.jpg"
                (path / name).write_bytes(pictures[i % len(pictures)])

        return self._made("folder", make)

    def records(self, kind):
        """Examples of "photos", or of "small" samples."""

        def make(path):
            small = kind == "small"
            contents = (
                [os.urandom(SMALL_BYTES) for _ in range(100)] if small else self._photographs()
            )
            count = self.sizes.small if small else self.sizes.photos
            samples = ((contents[i % len(contents)], i % CLASSES) for i in range(count))
            write_tfrecords(path, samples)

        return self._made(f"records-{kind}", make)

    def tokens(self):
        def make(path):
            path.mkdir()
            write_tokens(path / "corpus", self.sizes.tokens)

        return self._made("tokens", make)

    def tiny_records(self):
        return self._made("many", lambda path: write_tiny_records(path, self.sizes.many))

    def drive_file(self):
        """Random bytes, for measuring the drive alone."""

        def make(path):
            path.mkdir()
            with open(path / "data", "wb") as file:
                for begin in range(0, self.sizes.drive_bytes, BLOCK):
                    file.write(os.urandom(min(BLOCK, self.sizes.drive_bytes - begin)))

        return self._made("drive", make) / "data"

    def forget(self, name):
        shutil.rmtree(self.folder / name, ignore_errors=True)
