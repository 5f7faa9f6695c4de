"""What goes wrong with real data and real machines, and what the loader then does and says."""

import contextlib
import glob
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings

import penstock
import pytest
from conftest import BUILD, add_file, write_tar

FIELDS = {"label": penstock.Int("cls")}
GIB = 1 << 30
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")


def labels(loader):
    return [int(x) for b in loader for x, ok in zip(b["label"], b["__mask__"]) if ok]


def run_python(code, **options):
    env = {**os.environ, "PYTHONPATH": str(BUILD / "python"), **options.pop("env", {})}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


# Shards


def test_a_truncated_tar_names_the_shard_the_place_and_what_came_before(tmp_path, shards):
    whole = shards[0].read_bytes()
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole[:30_000])
    with pytest.raises(
        penstock.CorruptError, match=r"cut\.tar.*cut off.*30000.*after '0000\d\d\."
    ) as e:
        penstock.Loader(str(cut), FIELDS, batch_size=5)
    assert "1 bytes" not in str(e.value)


def test_a_tar_that_is_cut_off_later_fails_its_samples_alone(tmp_path, shards):
    path = tmp_path / "later.tar"
    path.write_bytes(shards[0].read_bytes())
    loader = penstock.Loader(
        str(path), FIELDS, batch_size=5, page_cache="buffered", on_error="skip"
    )
    times = os.stat(path)
    os.truncate(path, 20_000)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with contextlib.suppress(penstock.PenstockError):
        seen = [batch["__mask__"].tolist() for batch in loader]
        assert not all(all(mask) for mask in seen)
        assert "later.tar" in loader.report()["skipped_list"][0][0]


@pytest.mark.parametrize("last", [19, 150, 299])
@pytest.mark.parametrize("lost", [10, 3_000])
def test_what_a_shard_lost_never_comes_as_bytes(tmp_path, last, lost):
    """Bytes are copied out of mapped shards, whose last page goes on with zeros."""
    samples = [bytes([1 + i % 255]) * (3_000 + 613 * i % 9_000) for i in range(300)]
    path = tmp_path / "train.tar"
    write_tar(path, [(f"{i:06}.bin", data) for i, data in enumerate(samples)])
    with tarfile.open(path) as tar:
        member = tar.getmembers()[last]
    loader = penstock.Loader(
        str(path), {"data": penstock.Bytes("bin")}, batch_size=20, shuffle="none", on_error="skip"
    )
    for _ in range(20):  # From some reads on it is known to lie in memory.
        seen = [bytes(one) for batch in loader for one in batch["data"]]
        assert seen == samples
    loader.reset_report()
    os.truncate(path, member.offset_data + member.size - lost)
    for batch in loader:
        for one, ok in zip(batch["data"], batch["__mask__"]):
            assert not ok or 0 not in bytes(one)
    assert loader.report()["skipped"] > 0


def test_a_missing_shard_of_a_list_is_named(shards):
    folder = shards[0].parent
    with pytest.raises(penstock.NotFoundError, match=r"train-000004\.tar"):
        penstock.Loader(str(folder / "train-{000000..000004}.tar"), FIELDS)
    with pytest.raises(penstock.NotFoundError, match=r"train-000009\.tar"):
        penstock.Loader([str(shards[0]), str(folder / "train-000009.tar")], FIELDS)
    with pytest.raises(penstock.NotFoundError, match=r"and 97 more"):
        penstock.Loader(str(folder / "no-{000..099}.tar"), FIELDS)


def test_a_shard_that_vanishes_is_named(tmp_path, shards):
    loader = penstock.Loader(str(shards[0].parent), FIELDS, batch_size=25)
    shards[2].unlink()
    seen = []
    batches = iter(loader)
    with pytest.raises(penstock.PenstockError, match=r"train-000002\.tar.*'0000\d\d'"):
        for batch in batches:
            seen += batch["label"].tolist()
    assert seen == list(range(50))
    # The next call goes on after it.
    assert labels(loader) == list(range(75, 100))


def test_empty_shards_are_no_samples(tmp_path, shards):
    (tmp_path / "a-empty.tar").write_bytes(bytes(10240))
    (tmp_path / "b-nothing.tar").write_bytes(b"")
    some = [str(tmp_path / "a-empty.tar"), str(shards[1]), str(tmp_path / "b-nothing.tar")]
    for shuffle in ("none", "global", "local"):
        loader = penstock.Loader(some, FIELDS, batch_size=5, shuffle=shuffle, streams=5)
        assert sorted(labels(loader)) == list(range(25, 50))
    with pytest.raises(ValueError, match="no samples"):
        penstock.Loader(some[0], FIELDS)


def test_a_sample_that_lacks_a_field_is_named_or_skipped(tmp_path):
    members = []
    for i in range(10):
        members.append((f"{i}.txt", b"x"))
        if i != 6:
            members.append((f"{i}.cls", str(i).encode()))
    path = write_tar(tmp_path / "lacks.tar", members)
    loader = penstock.Loader(str(path), FIELDS, batch_size=5)
    batches = iter(loader)
    next(batches)
    with pytest.raises(penstock.NotFoundError, match=r"lacks\.tar.*'6'.*no 'cls'.*txt"):
        next(batches)
    loader = penstock.Loader(str(path), FIELDS, batch_size=5, on_error="skip")
    assert [b["__mask__"].tolist() for b in loader] == [[True] * 5, [True, False, True, True, True]]
    assert loader.report()["skipped_list"] == [
        (str(path), "6", loader.report()["skipped_list"][0][2])
    ]


def test_skipping_never_changes_the_order_of_others(tmp_path):
    good = [(f"{i:03d}.cls", str(i).encode()) for i in range(100)]
    bad = [(name, b"?" if i % 7 == 3 else data) for i, (name, data) in enumerate(good)]
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    write_tar(tmp_path / "good" / "x.tar", good)
    write_tar(tmp_path / "bad" / "x.tar", bad)
    for shuffle in ("none", "global", "local"):
        options = dict(batch_size=9, shuffle=shuffle, seed=3, streams=4, window="1kB", last="pad")
        expected = [
            b["label"].tolist() for b in penstock.Loader(str(tmp_path / "good"), FIELDS, **options)
        ]
        loader = penstock.Loader(str(tmp_path / "bad"), FIELDS, on_error="skip", **options)
        for batch, want in zip(loader, expected, strict=True):
            for value, other in zip(batch["label"], want):
                assert value == (other if other % 7 != 3 else 0)
        report = loader.report()
        assert report["skipped"] >= 14 and len(report["skipped_list"]) == report["skipped"]
        assert {key for _, key, _ in report["skipped_list"]} == {
            f"{i:03d}" for i in range(3, 100, 7)
        }


def test_the_list_of_skipped_ends_and_the_count_goes_on(tmp_path):
    write_tar(tmp_path / "bad.tar", [(f"{i:03d}.cls", b"?") for i in range(300)])
    loader = penstock.Loader(str(tmp_path / "bad.tar"), FIELDS, batch_size=100, on_error="skip")
    assert labels(loader) == []
    report = loader.report()
    assert report["skipped"] == 300 and len(report["skipped_list"]) == 100
    assert "300 samples" in str(report)
    one = write_tar(tmp_path / "one.tar", [("a.cls", b"?"), ("b.cls", b"1")])
    loader = penstock.Loader(str(one), FIELDS, batch_size=2, on_error="skip")
    assert labels(loader) == [1]
    assert "skipped   1 sample;" in str(loader.report())
    assert "2 samples in 1 batch," in str(loader.report())


def test_interleaved_keys_are_samples_of_their_own(tmp_path):
    """As WebDataset does: a sample is what follows each other."""
    path = write_tar(
        tmp_path / "mixed.tar", [("a.cls", b"1"), ("b.cls", b"2"), ("a.txt", b"x"), ("b.txt", b"y")]
    )
    dataset = penstock.Dataset(str(path))
    assert [sample["__key__"] for sample in dataset] == ["a", "b", "a", "b"]
    loader = penstock.Loader(str(path), FIELDS, batch_size=4, on_error="skip")
    assert next(iter(loader))["__mask__"].tolist() == [True, True, False, False]


def test_mixed_extensions_take_the_first_that_is_there(tmp_path):
    path = write_tar(
        tmp_path / "mixed.tar",
        [("a.cls", b"1"), ("b.label", b"2"), ("c.CLS", b"3"), ("d.label", b"9"), ("d.cls", b"4")],
    )
    loader = penstock.Loader(str(path), {"label": penstock.Int("cls;label")}, batch_size=4)
    assert labels(loader) == [1, 2, 3, 4]


def sparse_tar(path, name, size, header):
    """A tar with one large file, which is a hole, and a small one behind it."""
    with open(path, "wb") as file:
        file.write(header)
        file.seek(len(header) + (size + 511) // 512 * 512)
        with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            add_file(tar, "z.cls", b"7")
    return path


def large_header(style, name, size):
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(
        {"pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT}.get(style, tarfile.USTAR_FORMAT)
    )


@pytest.mark.parametrize(
    "style,size",
    [("ustar", 4 * GIB + 5), ("ustar", 8 * GIB - 1), ("gnu", 9 * GIB), ("pax", 9 * GIB)],
)
def test_files_of_many_gigabytes(tmp_path, style, size):
    path = sparse_tar(tmp_path / "large.tar", "a.bin", size, large_header(style, "a.bin", size))
    if os.stat(path).st_blocks * 512 > GIB:
        pytest.skip("the file system has no holes")
    dataset = penstock.Dataset(str(path))
    assert len(dataset) == 2
    assert labels(penstock.Loader(str(path), FIELDS, batch_size=1, on_error="skip")) == [7]
    loader = penstock.Loader(str(path), {"a": penstock.Bytes("bin")}, batch_size=1, memory="64MiB")
    with pytest.raises(penstock.PenstockError, match=r"GiB at once.*memory"):
        next(iter(loader))


def test_a_size_that_no_file_has_is_refused(tmp_path):
    header = bytearray(large_header("gnu", "a.bin", 9 * GIB))
    header[124:136] = b"\x80\x00\x00\x00" + struct.pack(">Q", 1 << 60)
    header[148:156] = b"        "
    header[148:156] = f"{sum(header[:512]):06o}\0 ".encode()
    (tmp_path / "large.tar").write_bytes(bytes(header) + bytes(10240))
    with pytest.raises(penstock.CorruptError, match=r"large\.tar.*offset 0"):
        penstock.Dataset(str(tmp_path / "large.tar"))


# Folders, links, indexes


def test_a_folder_that_must_not_be_read_is_named(shards):
    """As a user for whom modes count."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = pathlib.Path(name)
        shutil.copy(shards[0], folder)
        (folder / "private").mkdir()
        (folder / "private").chmod(0)
        folder.chmod(0o755)
        code = (
            "import os, penstock\n"
            "os.setuid(65534) if os.geteuid() == 0 else None\n"
            "try:\n"
            f"  penstock.Loader({name!r}, {{'label': penstock.Int('cls')}}, batch_size=5)\n"
            "except penstock.AccessError as error:\n"
            "  print(error)\n"
        )
        with run_python(code, env={"XDG_CACHE_HOME": "/nonexistent"}) as run:
            out, errors = run.communicate(timeout=60)
        assert f"{name}/private" in out and "denied" in out, errors


def test_links_as_in_a_snapshot_of_a_hub(tmp_path, shards):
    blobs = tmp_path / "hub" / "blobs"
    snapshot = tmp_path / "hub" / "snapshots" / "0123abc"
    blobs.mkdir(parents=True)
    (snapshot / "data").mkdir(parents=True)
    for i, path in enumerate(shards):
        path.rename(blobs / f"{i * 7919 % 4:064x}")
        (snapshot / "data" / path.name).symlink_to(f"../../../blobs/{i * 7919 % 4:064x}")
    for source in (
        str(snapshot),
        str(snapshot / "data" / "*.tar"),
        str(snapshot / "data" / "train-{000000..000003}.tar"),
        [str(snapshot / "data" / path.name) for path in shards],
    ):
        for mode in ("buffered", "direct"):
            loader = penstock.Loader(source, FIELDS, batch_size=10, page_cache=mode)
            assert labels(loader) == list(range(100))
    (blobs / f"{7919 % 4:064x}").unlink()
    with pytest.raises(penstock.NotFoundError, match=r"train-000001\.tar.*leads nowhere"):
        penstock.Loader(str(snapshot), FIELDS)


def test_links_of_single_files_and_class_folders(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "set" / "ant").mkdir(parents=True)
    (tmp_path / "set" / "bee").mkdir()
    for i, name in enumerate(("ant", "bee")):
        (tmp_path / "elsewhere" / f"{name}-0").write_bytes(b"picture %d" % i)
        (tmp_path / "set" / name / "0.jpg").symlink_to(tmp_path / "elsewhere" / f"{name}-0")
    loader = penstock.Loader(
        str(tmp_path / "set"),
        {"raw": penstock.Bytes("jpg"), "label": penstock.Int("cls")},
        batch_size=2,
    )
    batch = next(iter(loader))
    assert [bytes(x) for x in batch["raw"]] == [b"picture 0", b"picture 1"]
    assert batch["label"].tolist() == [0, 1]


@contextlib.contextmanager
def tmpfs(folder, size):
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@needs_root
@pytest.mark.parametrize("elsewhere", [True, False])
def test_no_space_for_the_index(tmp_path, shards, monkeypatch, elsewhere):
    """Beside the data there is none. Elsewhere there may be; otherwise it stays in memory."""
    with tmpfs(tmp_path / "full", "400k") as folder:
        for path in shards[:2]:
            (folder / path.name).write_bytes(path.read_bytes())
        with open(folder / "rest", "wb", buffering=0) as rest, contextlib.suppress(OSError):
            while True:
                rest.write(bytes(1024))
        if not elsewhere:
            monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "index"))
        for _ in range(2):
            loader = penstock.Loader(str(folder / "*.tar"), FIELDS, batch_size=10)
            assert labels(loader) == list(range(50))
            del loader
        assert not [p for p in folder.iterdir() if "tmp" in p.name or "lock" in p.name]


# Processes


def test_a_killed_process_leaves_nothing_in_the_way(shards):
    folder = shards[0].parent
    code = (
        "import penstock\n"
        "fields = {'label': penstock.Int('cls')}\n"
        f"loader = penstock.Loader({str(folder)!r}, fields, batch_size=5, shuffle='global')\n"
        "print('ready', flush=True)\n"
        "while True:\n  for batch in loader: pass\n"
    )
    for _ in range(3):
        for index in glob.glob(str(folder / ".penstock-index*")):
            os.unlink(index)
        with run_python(code) as run:
            assert run.stdout.readline() == "ready\n"
            time.sleep(0.05)
            maps = pathlib.Path(f"/proc/{run.pid}/maps").read_text()
            assert "/dev/shm" not in maps, "that would stay there"
            run.send_signal(signal.SIGKILL)
            run.wait()
        begin = time.monotonic()
        assert labels(penstock.Loader(str(folder), FIELDS, batch_size=5)) == list(range(100))
        assert time.monotonic() - begin < 5
    assert [p.name for p in folder.glob(".penstock-*")] in ([".penstock-index"], [])


def test_killed_while_it_makes_an_index(tmp_path):
    """Large enough to be hit in the middle."""
    members = [(f"{i:06d}.cls", b"%d" % i) for i in range(20_000)]
    for shard in range(8):
        write_tar(tmp_path / f"s{shard}.tar", members)
    code = (
        "import penstock\n"
        "print('begins', flush=True)\n"
        f"penstock.Loader({str(tmp_path / '*.tar')!r}, {{'label': penstock.Int('cls')}})\n"
        "print('ends', flush=True)\n"
    )
    for delay in (0.0, 0.01, 0.03, 0.1):
        with run_python(code) as run:
            assert run.stdout.readline() == "begins\n"
            time.sleep(delay)
            run.send_signal(signal.SIGKILL)
            run.wait()
    dataset = penstock.Dataset(str(tmp_path / "*.tar"))
    assert len(dataset) == 8 * 20_000
    # A file for a lock may stay; nobody holds it, and nobody waits for it.
    (tmp_path / ".penstock-index").unlink(missing_ok=True)
    (tmp_path / ".penstock-index.lock").touch()
    begin = time.monotonic()
    assert len(penstock.Dataset(str(tmp_path / "*.tar"))) == 8 * 20_000
    assert time.monotonic() - begin < 10
    assert (tmp_path / ".penstock-index").exists()
    assert [p.name for p in tmp_path.glob(".penstock-*") if "tmp" in p.name] == []


def test_a_consumer_that_stops_early_leaves_no_threads(shards):
    def threads():
        return len(os.listdir("/proc/self/task"))

    def once():
        loader = penstock.Loader(str(shards[0].parent), FIELDS, batch_size=5, shuffle="global")
        for batch in loader:
            return batch["label"].tolist()

    once()
    before = threads()
    for _ in range(5):
        once()
    time.sleep(0.1)
    assert threads() <= before


def test_a_loader_that_was_left_early_begins_where_it_was(shards):
    loader = penstock.Loader(str(shards[0].parent), FIELDS, batch_size=10)
    next(iter(loader))
    assert labels(loader) == list(range(10, 100))


def test_who_takes_as_many_batches_as_there_are_gets_the_next_epoch_next(shards):
    loader = penstock.Loader(str(shards[0].parent), FIELDS, batch_size=10)
    for epoch in range(3):
        taken = [batch["label"].tolist() for _, batch in zip(range(len(loader)), loader)]
        assert sum(taken, []) == list(range(100)), epoch
    assert labels(loader) == list(range(100))
    # A state of the very end is that of an epoch with nothing left.
    for _ in zip(range(len(loader)), loader):
        pass
    other = penstock.Loader(str(shards[0].parent), FIELDS, batch_size=10)
    other.load_state_dict(loader.state_dict())
    assert labels(other) == [] and labels(other) == list(range(100))


def test_a_fork_is_told_clearly_and_may_make_its_own(shards):
    loader = penstock.Loader(str(shards[0]), FIELDS, batch_size=5)
    next(iter(loader))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for what in (lambda: next(iter(loader)), lambda: loader.set_epoch(2)):
            try:
                what()
                said.append("went on")
            except penstock.PenstockError as error:
                said.append(str(error))
        os.write(writing, "\n".join(said).encode())
        os._exit(0)
    deadline = time.monotonic() + 20
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    said = os.read(reading, 10_000).decode().splitlines()
    assert len(said) == 2 and all("before a fork" in one for one in said), said
    assert len(labels(loader)) == 20, "the parent goes on"


def test_two_loaders_with_one_cache_and_one_index(tmp_path, shards):
    folder = str(shards[0].parent)
    loaders = [
        penstock.Loader(
            folder, FIELDS, batch_size=5, shuffle="global", seed=i, cache_dir=str(tmp_path / "c")
        )
        for i in range(3)
    ]
    for batches in zip(*loaders):
        assert len(batches) == 3
    for loader in loaders:
        assert sorted(labels(loader)) == list(range(100))


def test_handed_to_a_dataloader_of_torch_it_says_what_to_do(shards):
    data = pytest.importorskip("torch.utils.data")
    loader = penstock.Loader(str(shards[0]), FIELDS, batch_size=5)
    for workers in (0, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(TypeError, match="iterate over it directly|make one there"):
                for _ in data.DataLoader(loader, batch_size=2, num_workers=workers):
                    pass
