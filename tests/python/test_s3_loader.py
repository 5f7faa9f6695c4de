"""The loader over a real S3, with and without a disk cache: against the server of tests/s3/run."""

import gzip
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
import uuid
import warnings

import numpy as np
import penstock
import pytest
from conftest import BUILD, jpeg, tf_record, write_tar
from s3_proxy import Proxy
from test_tokens import write_megatron

pytest_plugins = ["s3_servers", "pen_volumes"]

FIELDS = {"text": penstock.Bytes("txt"), "label": penstock.Int("cls")}
MIB = 1 << 20


@pytest.fixture
def proxy(s3, monkeypatch):
    made = Proxy(os.environ["PENSTOCK_TEST_S3"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", made.endpoint)
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    yield made
    made.down()


@pytest.fixture
def upload(s3):
    """Puts a folder into a new bucket; gives its address. The server has little room."""
    put_there = []

    def put(folder):
        bucket = f"load-{uuid.uuid4().hex[:12]}"
        s3.create_bucket(Bucket=bucket)
        for path in sorted(folder.rglob("*")):
            if path.is_file() and ".penstock" not in str(path):
                key = str(path.relative_to(folder))
                s3.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
                put_there.append((bucket, key))
        return f"s3://{bucket}"

    yield put
    for bucket, key in put_there:
        s3.delete_object(Bucket=bucket, Key=key)


@pytest.fixture
def cache():
    """In memory: these tests are not about slow drives, which are left out while they are slow."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield f"{folder}/cache"


@pytest.fixture
def data(tmp_path):
    """Six shards of 8 MiB."""
    rng = random.Random(3)
    folder = tmp_path / "data"
    folder.mkdir()
    for shard in range(6):
        members = []
        for i in range(shard * 32, shard * 32 + 32):
            members.append((f"{i:06d}.txt", rng.randbytes(rng.randrange(1, 512 << 10))))
            members.append((f"{i:06d}.cls", str(i).encode()))
        write_tar(folder / f"train-{shard:06d}.tar", members)
    return folder


def samples(loader):
    """Of an epoch, in order: the label and what the rest of the sample hashes to."""
    out = []
    for batch in loader:
        for i, ok in enumerate(batch["__mask__"]):
            if ok:
                out.append((int(batch["label"][i]), hash(bytes(batch["text"][i]))))
    return out


@pytest.mark.parametrize("shuffle", ["none", "global", "local"])
def test_s3_second_epoch_asks_for_nothing(data, upload, proxy, tmp_path, shuffle, cache):
    options = dict(batch_size=16, shuffle=shuffle, seed=5, streams=4, window="4MiB")
    local = penstock.Loader(str(data), FIELDS, **options)
    expected = [samples(local), samples(local)]
    loader = penstock.Loader(upload(data), FIELDS, cache_dir=cache, cache_quota="1GiB", **options)
    assert samples(loader) == expected[0]
    before = len(proxy.requests)
    assert samples(loader) == expected[1]
    assert len(proxy.requests) == before, proxy.requests[before:]
    report = loader.report()
    assert report["staged"]["failed_bytes"] == 0
    del loader
    # Another process, so to speak: a listing, and nothing else.
    again = penstock.Loader(upload_address(proxy), FIELDS, cache_dir=cache, **options)
    before = proxy.count("GET", "HEAD")
    assert samples(again) == expected[0]
    assert proxy.count("GET", "HEAD") == before
    assert again.report()["staged"]["bytes"] == 0
    assert again.report()["cache"]["misses"] == 0


def upload_address(proxy):
    """The bucket that the last request was about."""
    return "s3://" + proxy.requests[-1][1].split("/")[1].split("?")[0]


def test_s3_is_staged_ahead_of_a_slow_reader(data, upload, proxy, tmp_path, cache):
    expected = samples(penstock.Loader(str(data), FIELDS, batch_size=1, shuffle="global", seed=2))
    address = upload(data)
    with pytest.warns(UserWarning, match="cache_dir"):
        penstock.Loader(
            address, FIELDS, batch_size=1
        )  # Makes the index, which is looked for all over the data.
    loader = penstock.Loader(
        address,
        FIELDS,
        batch_size=1,
        shuffle="global",
        seed=2,
        batches_ahead=2,
        cache_dir=cache,
        cache_quota="1GiB",
    )
    seen = []
    batches = iter(loader)
    for _ in range(2):
        batch = next(batches)
        seen += [(int(x), hash(bytes(t))) for x, t in zip(batch["label"], batch["text"])]
    deadline = time.monotonic() + 60
    whole = sum(path.stat().st_size for path in data.glob("*.tar"))
    while loader.report()["cache"]["source_bytes"] < 0.99 * whole and time.monotonic() < deadline:
        time.sleep(0.05)
    report = loader.report()
    assert report["staged"]["bytes"] > 10 * MIB and report["staged"]["ahead_bytes"] > 0
    assert "staged ahead: " in str(report)
    time.sleep(0.5)  # The last fills.
    proxy.down()  # Nobody needs it any more.
    for batch in batches:
        seen += [(int(x), hash(bytes(t))) for x, t in zip(batch["label"], batch["text"])]
    assert seen == expected
    proxy.up()


def test_s3_stops_at_once_while_it_stages(data, upload, proxy, tmp_path, cache):
    address = upload(data)
    loader = penstock.Loader(address, FIELDS, batch_size=4, batches_ahead=2, cache_dir=cache)
    next(iter(loader))
    time.sleep(0.05)
    begin = time.monotonic()
    del loader
    assert time.monotonic() - begin < 2


def test_s3_storms_and_broken_connections(data, upload, proxy, tmp_path, cache):
    expected = samples(penstock.Loader(str(data), FIELDS, batch_size=16))
    rng = random.Random(4)

    def trouble(method, path):
        return rng.choices([None, "slow down", "break", "cut"], [80, 8, 6, 6])[0]

    address = upload(data)
    for place in (None, cache):
        proxy.trouble = trouble
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = penstock.Loader(address, FIELDS, batch_size=16, cache_dir=place)
        assert samples(loader) == expected
        proxy.trouble = lambda method, path: None


def test_s3_with_a_cache_directory_that_goes_away(data, upload, proxy, tmp_path, cache):
    expected = samples(penstock.Loader(str(data), FIELDS, batch_size=8, shuffle="global"))
    loader = penstock.Loader(
        upload(data), FIELDS, batch_size=8, shuffle="global", cache_dir=cache, batches_ahead=2
    )
    seen = []
    for number, batch in enumerate(loader):
        seen += [(int(x), hash(bytes(t))) for x, t in zip(batch["label"], batch["text"])]
        if number == 5:
            shutil.rmtree(cache, ignore_errors=True)
    assert seen == expected


def test_s3_that_is_gone_is_an_error_and_a_state_goes_on(data, upload, proxy):
    expected = samples(penstock.Loader(str(data), FIELDS, batch_size=8, shuffle="global", seed=1))
    address = upload(data)
    options = dict(batch_size=8, shuffle="global", seed=1, batches_ahead=2)

    def open_loader():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return penstock.Loader(address, FIELDS, **options)

    loader = open_loader()
    seen, state = [], None
    batches = iter(loader)
    with pytest.raises(penstock.PenstockError, match=rf"{address}/train-\d+.tar.*'\d+'") as failed:
        for number in range(100):
            if number == 4:
                proxy.down()
            state = loader.state_dict()
            batch = next(batches)
            seen += [(int(x), hash(bytes(t))) for x, t in zip(batch["label"], batch["text"])]
    assert failed.value.retryable
    del failed, batches
    begin = time.monotonic()
    del loader
    assert time.monotonic() - begin < 5, "it does not wait for who does not answer"
    proxy.up()
    loader = open_loader()
    loader.load_state_dict(state)
    assert seen + samples(loader) == expected


def test_s3_class_folders_cost_one_request_per_file(upload, proxy, tmp_path, cache):
    rng = random.Random(7)
    folder = tmp_path / "classes"
    for name in ("ant", "bee", "cat"):
        (folder / name).mkdir(parents=True)
        for i in range(20):
            (folder / name / f"{i:03d}.jpg").write_bytes(jpeg(rng, 40, 30))
    fields = {"image": penstock.Image("jpg", size=16), "label": penstock.Int("cls")}
    options = dict(batch_size=10, shuffle="global", seed=3)

    def pixels(loader):
        return [(int(x), y.tobytes()) for b in loader for x, y in zip(b["label"], b["image"])]

    local = penstock.Loader(str(folder), fields, **options)
    loader = penstock.Loader(upload(folder), fields, cache_dir=cache, **options)
    listed = len(proxy.requests)
    assert pixels(loader) == pixels(local)
    assert proxy.count("HEAD") == 0
    assert len(proxy.requests) - listed <= 60 + 5  # A few may be read while they are staged.
    listed = len(proxy.requests)
    assert pixels(loader) == pixels(local)
    assert len(proxy.requests) == listed
    assert loader.classes == ["ant", "bee", "cat"]


def test_s3_files_that_changed_are_named(s3, upload, proxy, tmp_path, cache):
    folder = tmp_path / "files"
    folder.mkdir()
    for i in range(8):
        (folder / f"{i}.txt").write_text(f"text {i}")
    address = upload(folder)
    for place in (None, cache):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = penstock.Loader(
                address,
                {"text": penstock.Text("txt")},
                batch_size=4,
                cache_dir=place,
                format="files",
            )
        s3.put_object(Bucket=address[5:], Key="5.txt", Body=b"TEXT 5")
        batches = iter(loader)
        next(batches)
        with pytest.raises(penstock.ChangedError, match="'5'"):
            next(batches)
        s3.put_object(Bucket=address[5:], Key="5.txt", Body=b"text 5")


def test_s3_tfrecords(upload, proxy, tmp_path, cache):
    folder = tmp_path / "records"
    folder.mkdir()
    payloads = [os.urandom(random.Random(i).randrange(1, 1000)) for i in range(100)]
    for shard in range(2):
        records = [tf_record(one) for one in payloads[shard * 50 :][:50]]
        (folder / f"x-{shard}.tfrecord").write_bytes(b"".join(records))
    fields = {"record": penstock.Bytes("tfrecord")}
    loader = penstock.Loader(upload(folder), fields, batch_size=20, cache_dir=cache)
    for _ in range(2):
        before = proxy.count("GET", "HEAD")
        assert [bytes(r) for b in loader for r in b["record"]] == payloads
    assert proxy.count("GET", "HEAD") == before


def test_s3_compressed_shards(data, upload, proxy, tmp_path, cache):
    folder = tmp_path / "gz"
    folder.mkdir()
    for path in sorted(data.glob("*.tar"))[:2]:
        (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    expected = samples(penstock.Loader(str(folder), FIELDS, batch_size=16))
    loader = penstock.Loader(upload(folder), FIELDS, batch_size=16, cache_dir=cache)
    assert samples(loader) == expected
    before = proxy.count("GET", "HEAD")
    assert samples(loader) == expected
    assert proxy.count("GET", "HEAD") == before


def test_s3_tokens(upload, proxy, tmp_path, cache):
    folder = tmp_path / "tokens"
    folder.mkdir()
    rng = np.random.default_rng(1)
    documents = [rng.integers(0, 50_000, 5_000) for _ in range(300)]
    write_megatron(folder / "corpus", documents)
    options = dict(seq_length=512, batch_size=16, seed=1)

    def tokens(loader):
        return np.concatenate([batch["tokens"] for batch in loader])

    local = penstock.Tokens(str(folder / "corpus.idx"), **options)
    loader = penstock.Tokens(f"{upload(folder)}/corpus.idx", cache_dir=cache, **options)
    assert np.array_equal(tokens(loader), tokens(local))
    before = len(proxy.requests)
    assert np.array_equal(tokens(loader), tokens(local))
    assert len(proxy.requests) == before
    assert loader.report()["cache"]["hit_bytes"] > 0


def test_s3_without_a_cache_says_what_it_costs(data, upload, proxy, tmp_path, cache):
    address = upload(data)
    with pytest.warns(UserWarning, match=r"every epoch reads \d+.* MiB again.*cache_dir=") as said:
        penstock.Loader(address, FIELDS, batch_size=8)
    assert len(said) == 1 and address in str(said[0].message)
    assert said[0].filename == __file__, "it points at who opened the loader"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        penstock.Loader(address, FIELDS, batch_size=8, cache_dir=cache)
        penstock.Loader(str(data), FIELDS, batch_size=8)
    command = [str(BUILD / "src/cli/penstock"), "load", address, "--batch", "8", "--bytes", "txt"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert run.stderr.count("every epoch reads") == 1 and "--cache-dir" in run.stderr
    command += ["--cache-dir", cache, "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "every epoch" not in run.stderr
    told = json.loads(run.stdout)
    assert told["cache"]["source_bytes"] > 0 and told["staged"]["failed_bytes"] == 0


@pytest.fixture
def far_volume(s3, volumes):
    """A volume with its content in a new bucket."""
    bucket = f"volume-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=bucket)
    yield volumes.create("far", "--store", f"s3://{bucket}/far")
    for one in s3.list_objects_v2(Bucket=bucket).get("Contents", []):
        s3.delete_object(Bucket=bucket, Key=one["Key"])


def test_s3_volumes_are_cached_as_buckets_are(data, proxy, far_volume, volumes, cache, monkeypatch):
    with monkeypatch.context() as past_the_proxy:  # Which is for reads.
        past_the_proxy.setenv("AWS_ENDPOINT_URL", os.environ["PENSTOCK_TEST_S3"])
        volumes.fill(far_volume, data)
    expected = samples(penstock.Loader(str(data), FIELDS, batch_size=16))
    with pytest.warns(UserWarning, match=r"pen://far/.*over the network.*cache_dir="):
        loader = penstock.Loader(far_volume, FIELDS, batch_size=16)
    assert samples(loader) == expected
    del loader
    loader = penstock.Loader(far_volume, FIELDS, batch_size=16, cache_dir=cache)
    assert samples(loader) == expected
    before = len(proxy.requests)
    assert samples(loader) == expected
    assert len(proxy.requests) == before, proxy.requests[before:]
    assert loader.report()["cache"]["source_bytes"] > 0
