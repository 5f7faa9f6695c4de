"""Datasets in volumes, by pen://, beside the same ones in folders."""

import gzip
import json
import random
import warnings

import numpy as np
import penstock
import pytest
from conftest import jpeg, tf_record
from test_tokens import write_megatron

pytest_plugins = ["pen_volumes"]

FIELDS = {"text": penstock.Text("txt"), "label": penstock.Int("cls")}


@pytest.fixture
def folder(shards):
    """The shards of the fixture, and nothing else."""
    folder = shards[0].parent / "train"
    folder.mkdir()
    for path in shards:
        path.rename(folder / path.name)
    return folder


def samples(loader):
    return [(int(n), text) for batch in loader for n, text in zip(batch["label"], batch["text"])]


@pytest.fixture(autouse=True)
def no_warnings():
    """A volume on this machine's drives is nothing to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("shuffle", ["none", "global", "local"])
def test_shards_of_a_volume_are_read_as_those_of_a_folder(volumes, folder, tmp_path, shuffle):
    options = dict(batch_size=10, shuffle=shuffle, seed=3, streams=4, window="1MiB")
    volumes.fill(volumes.create("data") + "/train", folder)
    local = penstock.Loader(str(folder), FIELDS, **options)
    loader = penstock.Loader("pen://data/train/train-*.tar", FIELDS, **options)
    for _ in range(2):
        assert samples(loader) == samples(local)
    assert len(loader) == len(local)
    del loader
    kept = volumes.files("pen://data", tmp_path / "back")
    assert kept == [f"train/train-{i:06}.tar" for i in range(4)], "no index lies in the volume"
    assert any((tmp_path / "xdg/penstock/index").iterdir()), "it lies where those of S3 do"


def test_addresses_of_all_kinds(volumes, folder):
    (folder / "list.json").write_text(
        json.dumps(
            {
                "__kind__": "wids-shard-index-v1",
                "shardlist": [
                    {"url": f"train-{i:06}.tar", "nsamples": 25, "filesize": 1} for i in range(4)
                ],
            }
        )
    )
    expected = samples(penstock.Loader(str(folder / "train-*.tar"), FIELDS, batch_size=10))
    pen = volumes.fill(volumes.create("data") + "/a/train", folder)
    for source in (
        pen,
        f"{pen}/",
        "pen://data",
        f"{pen}/train-*.tar",
        f"{pen}/train-{{000000..000003}}.tar",
        f"{pen}/list.json",
        [f"{pen}/train-00000{i}.tar" for i in range(4)],
    ):
        assert samples(penstock.Loader(source, FIELDS, batch_size=10)) == expected, source


def test_two_loaders_and_a_dataset_of_one_volume_at_once(volumes, folder):
    volumes.fill(volumes.create("data"), folder)
    one = penstock.Loader("pen://data", FIELDS, batch_size=10, shuffle="global", seed=1)
    two = penstock.Loader("pen://data/train-000001.tar", FIELDS, batch_size=5)
    dataset = penstock.Dataset("pen://data")
    both = [(a["label"].tolist(), b["label"].tolist()) for a, b in zip(one, two)]
    assert [label for _, second in both for label in second] == list(range(25, 50))
    assert len(dataset) == 100 and dataset[73]["txt"] == b"sample 73"
    del one
    assert samples(two)[0] == (25, "sample 25"), "the volume stays open for the others"


def test_a_volume_on_local_drives_needs_no_cache(volumes, folder, tmp_path):
    volumes.fill(volumes.create("data"), folder)
    loader = penstock.Loader("pen://data", FIELDS, batch_size=10, cache_dir=tmp_path / "cache")
    assert len(samples(loader)) == 100
    told = loader.report()["cache"]
    assert told is None or told["source_bytes"] == 0


def test_class_folders_and_files(volumes, tmp_path):
    rng = random.Random(7)
    folder = tmp_path / "classes"
    for name in ("ant", "bee"):
        (folder / name).mkdir(parents=True)
        for i in range(10):
            (folder / name / f"{i:03d}.jpg").write_bytes(jpeg(rng, 40, 30))
    volumes.fill(volumes.create("data") + "/set", folder)
    fields = {"image": penstock.Image("jpg", size=16), "label": penstock.Int("cls")}
    options = dict(batch_size=5, shuffle="global", seed=3)

    def pixels(loader):
        return [(int(x), y.tobytes()) for b in loader for x, y in zip(b["label"], b["image"])]

    loader = penstock.Loader("pen://data/set", fields, **options)
    assert pixels(loader) == pixels(penstock.Loader(str(folder), fields, **options))
    assert loader.classes == ["ant", "bee"]


def test_tfrecords_compressed_shards_and_tokens(volumes, folder, tmp_path):
    payloads = [f"record {i}".encode() for i in range(50)]
    made = tmp_path / "made"
    made.mkdir()
    (made / "x.tfrecord").write_bytes(b"".join(map(tf_record, payloads)))
    tar = (folder / "train-000000.tar").read_bytes()
    (made / "a.tar.gz").write_bytes(gzip.compress(tar))
    rng = np.random.default_rng(1)
    write_megatron(made / "corpus", [rng.integers(0, 50_000, 500) for _ in range(30)])
    pen = volumes.fill(volumes.create("data"), made)
    records = penstock.Loader(
        f"{pen}/x.tfrecord", {"record": penstock.Bytes("tfrecord")}, batch_size=10
    )
    assert [bytes(r) for b in records for r in b["record"]] == payloads
    assert len(samples(penstock.Loader(f"{pen}/a.tar.gz", FIELDS, batch_size=5))) == 25
    options = dict(seq_length=64, batch_size=8, seed=1)
    for ours, theirs in zip(
        penstock.Tokens(f"{pen}/corpus.idx", **options),
        penstock.Tokens(str(made / "corpus.idx"), **options),
    ):
        assert np.array_equal(ours["tokens"], theirs["tokens"])


def test_a_file_that_changed_is_named(volumes, folder):
    pen = volumes.fill(volumes.create("data"), folder)
    before = samples(penstock.Loader(pen, FIELDS, batch_size=10))
    first = (folder / "train-000000.tar").read_bytes()
    (folder / "train-000000.tar").write_bytes((folder / "train-000001.tar").read_bytes())
    volumes.fill(pen, folder)
    after = samples(penstock.Loader(pen, FIELDS, batch_size=10))
    assert after == before[25:50] + before[25:], "its index is of the version that is there"
    (folder / "train-000000.tar").write_bytes(first)


def test_what_is_not_there_is_told(volumes, folder):
    volumes.create("data")
    with pytest.raises(penstock.NotFoundError, match="pen://data/none"):
        penstock.Loader("pen://data/none-*.tar", FIELDS, batch_size=10)
    with pytest.raises(penstock.NotFoundError, match="'other'.*data"):
        penstock.Loader("pen://other/a.tar", FIELDS, batch_size=10)
    with pytest.raises(penstock.InvalidError, match="whole name"):
        penstock.Loader("pen://da*/a.tar", FIELDS, batch_size=10)


def test_commands(volumes, folder, tmp_path):
    pen = volumes.fill(volumes.create("data") + "/train", folder)
    told = json.loads(
        volumes.run("load", f"{pen}/train-*.tar", "--text", "txt", "--batch", 10, "--json")
    )
    assert told["samples"] == 100
    photos = tmp_path / "photos"
    rng = random.Random(7)
    for name in ("ant", "bee"):
        (photos / name).mkdir(parents=True)
        for i in range(5):
            (photos / name / f"{i}.jpg").write_bytes(jpeg(rng, 40, 30))
    volumes.run("pack", "images", photos, "pen://data/packed")
    refused = volumes.run("pack", "images", photos, "pen://data/packed", code=1)
    assert "packed has shard-000000.tar" in refused
    volumes.fill("pen://data/photos", photos)
    volumes.run("pack", "images", "pen://data/photos", "pen://data/again")
    for place in ("packed", "again"):
        dataset = penstock.Dataset(f"pen://data/{place}/shard-*.tar")
        assert sorted(int(one["cls"]) for one in dataset) == [0] * 5 + [1] * 5
