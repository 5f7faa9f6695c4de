"""The same samples as the packages that the formats come from."""

import gzip
import io
import json
import random
import tarfile

import numpy as np
import penstock
import pytest
from conftest import add_file, tf_record, write_tar

wds = pytest.importorskip("webdataset")


def random_names(rng, count):
    """Names as real shards have them, and as they should not."""
    names = []
    for i in range(count):
        folder = rng.choice(["", "", "a/", "a.v1/", "deep/er/"])
        stem = f"{rng.choice(['s', 'Sample', 'x.y'])}{i}" if rng.random() < 0.9 else f".hidden{i}"
        for ext in rng.sample(["jpg", "JPG", "cls", "seg.png", "json", "txt"], rng.randrange(1, 4)):
            names.append(f"{folder}{stem}.{ext}")
        if rng.random() < 0.1:
            names.append(rng.choice(["__meta__", "__x__/y.txt", f"noext{i}", "README"]))
    return names


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("seed", range(8))
def test_tar_samples_are_webdatasets(tmp_path, format, seed):
    rng = random.Random(seed)
    path = tmp_path / "shard.tar"
    members, seen = [], set()
    for name in random_names(rng, 60):
        key = (name.rsplit("/", 1)[0] if "/" in name else "", name.lower())
        if key in seen:
            continue  # A repeated extension is an error in both.
        seen.add(key)
        if format != tarfile.USTAR_FORMAT and rng.random() < 0.05:
            name = "long/" * 40 + name
        members.append((name, rng.randbytes(rng.randrange(0, 2000))))
    write_tar(path, members, format)
    want = []
    for sample in wds.WebDataset(str(path), shardshuffle=False, empty_check=False):
        want.append({k: v for k, v in sample.items() if not k.startswith("__") or k == "__key__"})
    dataset = penstock.Dataset(str(path))
    got = [{k: v for k, v in sample.items() if k != "__url__"} for sample in dataset]
    assert got == want


def test_compressed_shards_are_streamed(tmp_path, shards):
    for path in shards:
        (tmp_path / "gz").mkdir(exist_ok=True)
        (tmp_path / "gz" / (path.name + ".gz")).write_bytes(gzip.compress(path.read_bytes()))
    fields = {"text": penstock.Text("txt"), "label": penstock.Int("cls")}
    loader = penstock.Loader(str(tmp_path / "gz"), fields, batch_size=10)
    assert [int(x) for b in loader for x in b["label"]] == list(range(100))
    local = penstock.Loader(
        str(tmp_path / "gz"), fields, batch_size=10, shuffle="local", streams=4, window="2kB"
    )
    assert sorted(int(x) for b in local for x in b["label"]) == list(range(100))
    with pytest.raises(penstock.UnsupportedError, match="shuffle='local'"):
        penstock.Loader(str(tmp_path / "gz"), fields, batch_size=10, shuffle="global")


def test_a_truncated_shard_and_an_empty_one(tmp_path, shards):
    whole = shards[0].read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: len(whole) // 2 + 100])
    with pytest.raises(penstock.CorruptError, match="cut.tar"):
        penstock.Dataset(str(tmp_path / "cut.tar"))
    (tmp_path / "empty.tar").write_bytes(bytes(10240))
    both = penstock.Dataset([str(tmp_path / "empty.tar"), str(shards[1])])
    assert len(both) == 25


def test_tfrecords_are_those_of_the_tfrecord_package(tmp_path):
    tfrecord = pytest.importorskip("tfrecord")
    rng = np.random.default_rng(2)
    path = str(tmp_path / "data.tfrecord")
    writer = tfrecord.TFRecordWriter(path)
    for i in range(50):
        writer.write(
            {
                "image": (rng.bytes(int(rng.integers(0, 500))), "byte"),
                "label": (i, "int"),
                "score": (i / 8, "float"),
            }
        )
    writer.close()
    want = list(
        tfrecord.tfrecord_loader(path, None, {"image": "byte", "label": "int", "score": "float"})
    )
    fields = {
        "image": penstock.Bytes("image"),
        "label": penstock.Int("label"),
        "score": penstock.Float("score"),
    }
    batch = next(iter(penstock.Loader(path, fields, batch_size=50)))
    for i, one in enumerate(want):
        assert bytes(batch["image"][i]) == bytes(one["image"])
        assert batch["label"][i] == one["label"][0] and batch["score"][i] == one["score"][0]


def test_a_bad_checksum_of_a_record_is_found(tmp_path):
    good = b"".join(tf_record(bytes([i]) * 100) for i in range(4))
    bad = bytearray(good)
    bad[116 + 12 + 50] ^= 1  # In the data of the second.
    (tmp_path / "good.tfrecord").write_bytes(good)
    (tmp_path / "bad.tfrecord").write_bytes(bytes(bad))
    fields = {"record": penstock.Bytes("tfrecord")}
    batch = next(iter(penstock.Loader(str(tmp_path / "good.tfrecord"), fields, batch_size=4)))
    assert [bytes(x) for x in batch["record"]] == [bytes([i]) * 100 for i in range(4)]
    loader = penstock.Loader(str(tmp_path / "bad.tfrecord"), fields, batch_size=4, on_error="skip")
    assert next(iter(loader))["__mask__"].tolist() == [True, False, True, True]


def test_npy_arrays_become_one(tmp_path):
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(3, 5)).astype(np.float32) for _ in range(6)]
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i, one in enumerate(arrays):
            out = io.BytesIO()
            np.save(out, one)
            add_file(tar, f"{i}.npy", out.getvalue())
    loader = penstock.Loader(
        str(tmp_path / "a.tar"), {"x": penstock.Array("npy", shape=(3, 5))}, batch_size=6
    )
    np.testing.assert_array_equal(next(iter(loader))["x"], np.stack(arrays))
    wrong = penstock.Loader(
        str(tmp_path / "a.tar"), {"x": penstock.Array("npy", shape=(5, 3))}, batch_size=6
    )
    with pytest.raises(ValueError, match=r"float32 \[3, 5\] where float32 \[5, 3\]"):
        next(iter(wrong))


def test_texts_inside_json(tmp_path):
    documents = [
        {"caption": 'a \u00e9\n"quoted"', "more": {"list": ["x", "y"], "a/b": "z"}},
        {"caption": "second", "more": {"list": ["p", "q"], "a/b": "r"}},
        {"caption": 5, "more": {"list": [], "a/b": ""}},
    ]
    files = [(f"{i}.json", json.dumps(one).encode()) for i, one in enumerate(documents)]
    path = tmp_path / "captions.tar"
    write_tar(path, files)
    fields = {
        "caption": penstock.Text("json", key="caption"),
        "last": penstock.Text("json", key="more.list.1"),
        "odd": penstock.Text("json", key="/more/a~1b"),
    }
    batch = next(iter(penstock.Loader(str(path), fields, batch_size=3, on_error="skip")))
    assert list(batch["__mask__"]) == [True, True, False]
    assert batch["caption"] == ['a \u00e9\n"quoted"', "second", None]
    assert batch["last"] == ["y", "q", None] and batch["odd"] == ["z", "r", None]
    with pytest.raises(penstock.PenstockError, match="is not a text"):
        list(penstock.Loader(str(path), fields, batch_size=3))
