"""The loader from Python, on real files."""

import gc
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time

import numpy as np
import penstock
import pytest
from conftest import BUILD, write_tar

FIELDS = {"text": penstock.Text("txt"), "label": penstock.Int("cls")}


def labels(loader):
    """All labels of an epoch that are not padding, in order."""
    return [int(x) for batch in loader for x, ok in zip(batch["label"], batch["__mask__"]) if ok]


def test_a_batch_has_what_was_asked_for(shards):
    loader = penstock.Loader(
        [str(path) for path in shards],
        {
            "text": penstock.Text("txt"),
            "raw": penstock.Bytes("txt"),
            "label": penstock.Int("cls"),
            "deep": penstock.Int("json", key="deep.list.1"),
            "x": penstock.Float("json", key="x"),
            "meta": penstock.Json("json"),
        },
        batch_size=10,
    )
    assert len(loader) == 10 and loader.samples == 100
    number = 0
    for batch in loader:
        for i in range(10):
            assert batch["text"][i] == f"sample {number}"
            assert bytes(batch["raw"][i]) == f"sample {number}".encode()
            assert batch["label"][i] == number and batch["label"].dtype == np.int64
            assert batch["deep"][i] == number * 2
            assert batch["x"][i] == np.float32(number / 4)
            assert batch["meta"][i]["id"] == number
            assert batch["__mask__"][i]
            number += 1
    assert number == 100


@pytest.mark.parametrize("shuffle", ["none", "global", "local"])
@pytest.mark.parametrize("page_cache", ["buffered", "direct", "auto"])
def test_every_sample_once_per_epoch(shards, shuffle, page_cache):
    loader = penstock.Loader(
        str(shards[0].parent / "train-{000000..000003}.tar"),
        FIELDS,
        batch_size=7,
        shuffle=shuffle,
        seed=3,
        last="pad",
        streams=12,
        window="10kB",
        page_cache=page_cache,
    )
    first, second = labels(loader), labels(loader)
    assert sorted(first) == sorted(second) == list(range(100))
    assert (first == second) == (shuffle == "none")


@pytest.mark.parametrize("shuffle", ["global", "local"])
def test_the_order_does_not_depend_on_ranks_threads_or_batches(shards, shuffle):
    def order(world, batch, threads):
        ranks = [
            penstock.Loader(
                str(shards[0].parent),
                FIELDS,
                batch_size=batch,
                shuffle=shuffle,
                seed=9,
                rank=r,
                world_size=world,
                threads=threads,
                streams=12,
                window="4kB",
                last="pad",
            )
            for r in range(world)
        ]
        seen = [labels(loader) for loader in ranks]
        # Position p is with rank p mod world.
        return [seen[p % world][p // world] for p in range(100)]

    expected = order(1, 10, 1)
    assert sorted(expected) == list(range(100))
    for world, batch, threads in [(2, 5, 2), (4, 3, 1), (3, 7, 4), (12, 2, 1)]:
        assert order(world, batch, threads) == expected


def test_resume_at_another_world_size_batch_size_and_thread_count(shards):
    rng = random.Random(2)
    for _ in range(5):
        seen, state = [], None
        while True:
            world, batch = rng.choice([1, 2, 3, 4]), rng.choice([1, 3, 5, 8])
            ranks = [
                penstock.Loader(
                    [str(p) for p in shards],
                    FIELDS,
                    batch_size=batch,
                    shuffle="global",
                    seed=4,
                    rank=r,
                    world_size=world,
                    threads=rng.choice([1, 2]),
                    last="pad",
                )
                for r in range(world)
            ]
            if state:
                for loader in ranks:
                    loader.load_state_dict(state)
            its = [iter(loader) for loader in ranks]
            done = False
            for _ in range(rng.randrange(1, 6)):
                for it in its:
                    got = next(it, None)
                    if got is None:
                        done = True
                        continue
                    seen += [int(x) for x, ok in zip(got["label"], got["__mask__"]) if ok]
            if done:
                break
            states = [json.dumps(loader.state_dict()) for loader in ranks]
            assert len(set(states)) == 1, "the state is the same on every rank"
            state = json.loads(states[0])
        assert sorted(seen) == list(range(100))


def test_a_state_of_another_dataset_is_refused(shards):
    one = penstock.Loader(str(shards[0]), FIELDS, batch_size=5, shuffle="global", seed=4)
    two = penstock.Loader([str(p) for p in shards], FIELDS, batch_size=5, shuffle="global", seed=4)
    with pytest.raises(ValueError, match="another order"):
        two.load_state_dict(one.state_dict())


def test_set_epoch_gives_that_epoch(shards):
    loader = penstock.Loader(
        [str(p) for p in shards], FIELDS, batch_size=10, shuffle="global", seed=1
    )
    epochs = [labels(loader) for _ in range(3)]
    loader.set_epoch(1)
    assert labels(loader) == epochs[1]
    assert labels(loader) == epochs[2]


def test_drop_pad_and_exact(shards):
    path = str(shards[0].parent)
    assert len(penstock.Loader(path, FIELDS, batch_size=32)) == 3
    padded = penstock.Loader(path, FIELDS, batch_size=32, last="pad")
    masks = [batch["__mask__"].sum() for batch in padded]
    assert len(padded) == 4 and masks == [32, 32, 32, 4]
    with pytest.raises(ValueError, match="4 are left over"):
        penstock.Loader(path, FIELDS, batch_size=32, last="exact")
    assert len(penstock.Loader(path, FIELDS, batch_size=20, last="exact")) == 5


def test_a_mixture_keeps_to_its_weights(shards):
    loader = penstock.Loader(
        {str(shards[0]): 3, str(shards[1]): 1}, FIELDS, batch_size=50, epoch_samples=10_000
    )
    seen = labels(loader)
    first = sum(x < 25 for x in seen)
    assert len(seen) == 10_000 and first == 7_500


def test_arrays_keep_their_memory(shards):
    loader = penstock.Loader(
        [str(p) for p in shards],
        FIELDS | {"raw": penstock.Bytes("txt")},
        batch_size=10,
        memory="8MiB",
    )
    kept = [(batch["label"], batch["raw"][3]) for batch in loader]
    del loader
    gc.collect()
    assert [int(x) for one, _ in kept for x in one] == list(range(100))
    assert [bytes(raw) for _, raw in kept] == [f"sample {i}".encode() for i in range(3, 100, 10)]


def test_what_is_wrong_is_said(shards, tmp_path):
    path = str(shards[0])
    with pytest.raises(ValueError, match="shuffle"):
        penstock.Loader(path, FIELDS, shuffle="very")
    with pytest.raises(ValueError, match="rank 3 of world_size 2"):
        penstock.Loader(path, FIELDS, rank=3, world_size=2, batch_size=1)
    with pytest.raises(ValueError, match="4GiB|expected"):
        penstock.Loader(path, FIELDS, memory="4 potatoes")
    with pytest.raises(FileNotFoundError, match="nothing-here"):
        penstock.Loader(str(tmp_path / "nothing-here.tar"), FIELDS)
    with pytest.raises(TypeError, match="penstock.Image"):
        penstock.Loader(path, {"image": "jpg"})
    loader = penstock.Loader(path, {"image": penstock.Image("jpg")}, batch_size=5)
    with pytest.raises(penstock.NotFoundError, match="no 'jpg'"):
        next(iter(loader))
    with pytest.raises(ValueError, match="does not divide 720"):
        penstock.Loader(path, FIELDS, shuffle="local", world_size=7, batch_size=1)


def test_a_bad_sample_is_raised_or_skipped(shards, tmp_path):
    bad = write_tar(tmp_path / "bad.tar", [("a.cls", b"1"), ("b.cls", b"many"), ("c.cls", b"3")])
    fields = {"label": penstock.Int("cls")}
    loader = penstock.Loader(str(bad), fields, batch_size=3)
    with pytest.raises(penstock.PenstockError, match=r"bad.tar.*'b'.*many"):
        next(iter(loader))
    loader = penstock.Loader(str(bad), fields, batch_size=3, on_error="skip")
    batch = next(iter(loader))
    assert batch["label"].tolist() == [1, 0, 3] and batch["__mask__"].tolist() == [
        True,
        False,
        True,
    ]
    report = loader.report()
    assert report["skipped"] == 1 and report["skipped_list"][0][1] == "b"


def test_a_loader_is_no_dataset_of_torch(shards):
    loader = penstock.Loader(str(shards[0]), FIELDS, batch_size=5)
    with pytest.raises(TypeError, match="iterate over it directly"):
        loader[0]
    with pytest.raises(TypeError, match="make one there"):
        pickle.dumps(loader)


def test_after_a_fork_it_says_so(shards):
    loader = penstock.Loader(str(shards[0]), FIELDS, batch_size=5)
    next(iter(loader))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            next(iter(loader))
            os.write(writing, b"went on")
        except penstock.PenstockError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"before a fork" in os.read(reading, 1000)


def test_ctrl_c_stops_it_at_once(shards):
    code = (
        # Whoever runs the tests in the background of a shell has it ignored.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import penstock, sys\n"
        "fields = {'label': penstock.Int('cls')}\n"
        f"loader = penstock.Loader({str(shards[0])!r}, fields, batch_size=5)\n"
        "print('ready', flush=True)\n"
        "while True:\n  for batch in loader: pass\n"
    )
    env = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout.readline() == b"ready\n"
        time.sleep(0.3)
        begin = time.monotonic()
        run.send_signal(signal.SIGINT)
        try:
            _, errors = run.communicate(timeout=10)
        finally:
            run.kill()
        assert time.monotonic() - begin < 2
        assert b"KeyboardInterrupt" in errors


def test_two_loaders_at_once_and_early_stop(shards):
    one = penstock.Loader(str(shards[0].parent), FIELDS, batch_size=5, shuffle="global")
    two = penstock.Loader(str(shards[0].parent), FIELDS, batch_size=10, shuffle="global")
    for a, b in zip(one, two):
        assert a["label"][0] >= 0 and b["label"][0] >= 0
    for _ in one:
        break
    del one, two


def ranks_of(rank, world, folder, queue):
    loader = penstock.Loader(
        folder, FIELDS, batch_size=4, shuffle="global", rank=rank, world_size=world, last="pad"
    )
    queue.put(labels(loader))


def test_several_processes_as_ranks(shards):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    folder = str(shards[0].parent)
    processes = [context.Process(target=ranks_of, args=(r, 3, folder, queue)) for r in range(3)]
    for process in processes:
        process.start()
    seen = sorted(x for _ in processes for x in queue.get(timeout=60))
    for process in processes:
        process.join()
    assert seen == list(range(100))


def test_map_style(shards):
    dataset = penstock.Dataset([str(path) for path in shards])
    assert len(dataset) == 100
    assert dataset[17]["txt"] == b"sample 17" and dataset[-1]["cls"] == b"99"
    assert [s["__key__"] for s in dataset.get([5, 90, 31])] == ["000005", "000090", "000031"]
    assert [s["cls"] for s in dataset] == [str(i).encode() for i in range(100)]
    with pytest.raises(IndexError):
        dataset[100]


def test_report_is_readable(shards):
    loader = penstock.Loader(str(shards[0].parent), FIELDS, batch_size=5, map=lambda batch: batch)
    for _ in loader:
        with loader.step():
            time.sleep(0.001)
    report = loader.report()
    assert report["samples"] == 100 and report["steps_timed"] == 20 and report["step_busy"] >= 0.02
    assert "samples/s" in str(report) and "=>" in str(report)


def test_map_of_one_sample(shards):
    def of_one(sample):
        return {"twice": sample["label"] * 2, "text": sample["text"] + "!", "pair": np.ones(2)}

    loader = penstock.Loader(
        str(shards[0].parent),
        {"label": penstock.Int("cls"), "text": penstock.Text("txt")},
        batch_size=7,
        last="pad",
        map=penstock.per_sample(of_one),
    )
    seen = []
    for batch in loader:
        assert batch["twice"].shape == (7,) and batch["pair"].shape == (7, 2)
        for i, ok in enumerate(batch["__mask__"]):
            if not ok:
                assert batch["twice"][i] == 0 and batch["text"][i] is None
                continue
            assert batch["text"][i].endswith("!")
            seen.append(int(batch["twice"][i]))
    assert len(seen) == 100 and all(one % 2 == 0 for one in seen)
    assert loader.report()["map_busy"] > 0


def test_a_map_of_one_sample_must_give_fields(shards):
    loader = penstock.Loader(
        str(shards[0].parent), FIELDS, batch_size=5, map=penstock.per_sample(lambda sample: 3)
    )
    with pytest.raises(TypeError, match="must give a dict"):
        next(iter(loader))


def test_tune_tries_and_says_what_it_found(shards):
    loader = penstock.Loader(str(shards[0].parent), FIELDS, batch_size=10, tune=True)
    assert sum(batch["__mask__"].sum() for batch in loader) == 100
    report = loader.report()
    assert "samples/s" in report["tuned"] and report["tuned"] in str(report)
    assert report["threads"] == int(report["tuned"].split()[0])
