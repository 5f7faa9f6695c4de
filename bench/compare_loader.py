"""The loader against webdataset, DALI, SPDL, litdata, torch's DataLoader, tfrecord and bare loops.

Every candidate runs in a process of its own, in turn with the others, over the same files. It goes
through the data once to warm up; then whole epochs are timed. In the first round that warm-up looks
at every sample: counts and checksums (of images, whose crops are random: labels and the mean pixel)
must be those of ours. A peer that does not run is named, with its reason.
"""

import contextlib
import dataclasses
import json
import os
import shutil

import measure
import servers

from loader import data, runs

ROUNDS = 5
BUCKET = "bench-loader"
DIRECT_READ = "read:sequential:direct:1MiB:8"
RSS_BESIDES = 150_000_000
RSS_MEMORY = 512 << 20
RSS_EPOCHS = 10
# From the end of the third epoch to that of the last: less is allocators and page rounding.
RSS_GROWTH = 16 << 20
RESUME_SECONDS = 0.1
DELAY_MS = 10  # One way.
LINK_RATE = 500_000_000  # Bytes per second: 4 Gbit/s.
MIB = 1 << 20


class Bench:
    """What rows share: the data, how often, how long."""

    def __init__(self, folder, tiny, quick):
        self.folder = folder
        self.data = data.Data(folder, data.TINY if tiny else data.FULL)
        self.rounds = 1 if tiny or quick else ROUNDS
        self.seconds = 0.05 if tiny else 1.0
        self.tiny = tiny

    def work(self, folder, batch_size, pattern="*.tar", **more):
        return {
            "folder": str(folder),
            "source": f"{folder}/{pattern}",
            "batch_size": batch_size,
            "seconds": self.seconds,
            "warm_seconds": 3,
            **more,
        }

    def side(self, name, work, env=None):
        return runs.Candidate(name, work, self.folder, env)

    def script(self, name, *words, env=None):
        command = [runs.PYTHON, runs.HERE / name, *words]
        return runs.run_json(command, runs.environment(self.folder, env))

    def row(self, key, name, sides, bars, **more):
        answers, missing = runs.take_turns(sides, self.rounds)
        return runs.make_row(key, name, answers, missing, bars, **more)


def shard_bytes(folder):
    return sum(path.stat().st_size for path in folder.glob("*.tar"))


KINDS = {"large": ("150 KB", 64), "small": ("5 KB", 256)}


def warm_tar(bench, kind):
    size, batch = KINDS[kind]
    work = bench.work(bench.data.tars(kind), batch, field="bin")
    alone, workers = "webdataset", "webdataset + DataLoader(2)"
    sides = {
        runs.OURS: bench.side("ours:Samples", work),
        alone: bench.side("peers_webdataset:Alone", work),
        workers: bench.side("peers_webdataset:Workers", work),
    }
    name = f"tar, samples of {size}, no decode, warm"
    return [bench.row(f"tar-{kind}", name, sides, {alone: 10, workers: 5})]


def cold_tar(bench, kind):
    size, batch = KINDS[kind]
    folder = bench.data.tars(kind)
    total = shard_bytes(folder)
    samples = getattr(bench.data.sizes, kind)
    options = {"page_cache": "direct"}
    ours = bench.side("ours:Samples", bench.work(folder, batch, field="bin", options=options))

    def cold(turn):
        measure.drop_page_cache(folder)
        return ours(turn)

    drive = f"penstock bench {DIRECT_READ}"
    alone = runs.penstock_bench(
        bench.data.drive_file(), DIRECT_READ, bench.seconds, total / samples
    )
    name = f"tar, samples of {size}, no decode, cold, direct"
    sides = {runs.OURS: cold, drive: alone}
    return [bench.row(f"cold-{kind}", name, sides, {drive: 0.9}, bytes_per_sample=total / samples)]


def images(bench):
    folder = bench.data.photos()
    work = bench.work(folder, 64, shuffle="global")
    prepare_litdata(bench, work)
    bare, with_pillow = "bare loop, 2 threads", "webdataset + DataLoader(2) + Pillow"
    paths = sorted(folder.glob("*.tar"))
    loop = ["images", *paths, "--threads", 2, "--batch", 64, "--seconds", bench.seconds]
    sides = {
        runs.OURS: bench.side("ours:Images", work),
        bare: runs.bare_loop(*loop),
        "DALI (CPU)": bench.side("peers_dali:Images", work),
        "SPDL": bench.side("peers_spdl:Images", work),
        "litdata": bench.side("peers_litdata:Images", work),
        with_pillow: bench.side("peers_webdataset:Images", work),
    }
    bars = {bare: 0.93, "DALI (CPU)": 1, "SPDL": 1, "litdata": 1, with_pillow: 3}
    name = "JPEG 500×400, ~110 KB → RandomResizedCrop 224, float32 CHW"
    strict = ("DALI (CPU)", "SPDL", "litdata")
    return [bench.row("images", name, sides, bars, strict=strict)]


def prepare_litdata(bench, work):
    """In its own format; when that fails, its row will say why."""
    with contextlib.suppress(RuntimeError):
        bench.script("peers_litdata.py", work["folder"])


def class_folder(bench):
    folder = bench.data.class_folder()
    # The peer takes most of a minute for an epoch: twelve seconds of one are enough.
    work = bench.work(folder, 64, shuffle="global", limit_seconds=12) | {"source": str(folder)}
    peer = "DataLoader(2) + Pillow"
    sides = {
        runs.OURS: bench.side("ours:Images", work),
        peer: bench.side("peers_torch:Folder", work),
    }
    try:
        name = f"class folder of {bench.data.sizes.folder:,} JPEGs, same transform"
        return [bench.row("folder", name, sides, {peer: 2.5})]
    finally:
        bench.data.forget("folder")


def tokens(bench):
    folder = bench.data.tokens()
    work = bench.work(folder, 64, shuffle="global", seq=data.SEQ_LENGTH)
    bare, alone, handed, peer = (
        "bare loop, 2 threads",
        "bare loop, 1 thread",
        "bare loop, 2 threads and a consumer",
        "numpy memmap + DataLoader(2)",
    )
    loop = ["tokens", folder / "corpus.bin", "--seq", data.SEQ_LENGTH, "--batch", 64]
    loop += ["--seconds", bench.seconds]
    sides = {
        runs.OURS: bench.side("ours:Tokens", work),
        bare: runs.bare_loop(*loop, "--threads", 2),
        alone: runs.bare_loop(*loop, "--threads", 1),
        handed: runs.bare_loop(*loop, "--threads", 2, "--hand-over"),
        peer: bench.side("peers_torch:Tokens", work),
    }
    name = f"tokens, {data.SEQ_LENGTH} each, batch 64, uint16 → int64, random"
    return [bench.row("tokens", name, sides, {bare: 0.8, alone: None, handed: None, peer: 5})]


def records(bench, kind):
    size, batch = {"photos": ("110 KB", 64), "small": ("5 KB", 256)}[kind]
    folder = bench.data.records(kind)
    work = bench.work(folder, batch, "*.tfrecord", field="tfrecord")
    parsed, dali = "tfrecord", "DALI (CPU)"
    sides = {
        runs.OURS: bench.side("ours:Records", work),
        parsed: bench.side("peers_tfrecord:Examples", work),
        dali: bench.side("peers_dali:Records", work),
    }
    name = f"TFRecord, Examples of {size}, CRCs checked, no decode"
    rows = [bench.row(f"records-{kind}", name, sides, {parsed: 5, dali: 1.5})]
    plain = "tfrecord, nothing parsed"
    sides = {
        runs.OURS: bench.side("ours:Samples", work),
        plain: bench.side("peers_tfrecord:Records", work),
    }
    name = f"TFRecord, records of {size} as they are, CRCs checked"
    return [*rows, bench.row(f"records-{kind}", name, sides, {plain: None})]


def resume(bench):
    folder = bench.data.tiny_records()
    prepared = bench.script("resume.py", folder, "prepare")
    times = {"fresh": [], "resume": []}
    for turn in range(bench.rounds):
        for verb in list(times) if turn % 2 == 0 else list(reversed(times)):
            times[verb].append(bench.script("resume.py", folder, verb)["seconds"])
    middle = {verb: sorted(many)[len(many) // 2] for verb, many in times.items()}
    bench.data.forget("many")
    return [
        {
            "key": "resume",
            "kind": "resume",
            "name": f"resume at {prepared['position']:,} of {prepared['samples']:,} samples",
            "fresh_seconds": middle["fresh"],
            "resume_seconds": middle["resume"],
            "all": times,
            "passed": middle["resume"] - middle["fresh"] <= RESUME_SECONDS,
        }
    ]


def memory_row(key, name, answer):
    """Below the ceiling at all times, and flat."""
    after, ceiling = answer["after"], RSS_MEMORY + RSS_BESIDES
    growth = after[-1] - after[min(2, len(after) - 1)]
    return {
        "key": key,
        "kind": "memory",
        "name": name,
        "peak_bytes": answer["peak"],
        "after_bytes": after,
        "ceiling_bytes": ceiling,
        "growth_bytes": growth,
        "passed": answer["peak"] <= ceiling and growth <= RSS_GROWTH,
    }


def memory(bench):
    options = {"memory": RSS_MEMORY}
    cases = [
        ("tar, samples of 150 KB", "ours:Samples", bench.data.tars("large"), {"field": "bin"}),
        ("JPEGs", "ours:Images", bench.data.photos(), {}),
    ]
    rows = []
    for name, candidate, folder, more in cases:
        work = bench.work(folder, 64, shuffle="global", options=options, epochs=RSS_EPOCHS, **more)
        answer = bench.script("memory.py", candidate, json.dumps(work))
        label = f"resident memory, {name}, memory={RSS_MEMORY // MIB} MiB, {RSS_EPOCHS} epochs"
        rows.append(memory_row("memory", label, answer))
    return rows


def best_get(results):
    gets = [one for one in results if one["op"] in ("get", "get_range") and not one["skipped"]]
    return max(one["throughput_bytes_per_second"] for one in gets)


def s3(bench):
    folder = bench.data.tars("large")
    # Twice: what is read ahead of the second epoch is then small beside the first.
    names = [
        (path, f"{copy}/{path.name}") for copy in "ab" for path in sorted(folder.glob("*.tar"))
    ]
    total = 2 * shard_bytes(folder)
    samples = 2 * bench.data.sizes.large
    with servers.s3_server(1 if bench.tiny else 8, reuse=bench.tiny) as server:
        with servers.bucket(server, BUCKET):
            client = servers.s3_client(server.env)
            for path, name in names:
                client.upload_file(str(path), BUCKET, f"train/{name}")
            shards = Shards(samples, total)
            rows = near_rows(bench, shards, server.env)
            with servers.far(server.env, "--delay-ms", DELAY_MS, "--rate", LINK_RATE) as env:
                return [*rows, far_row(bench, shards, env)]


@dataclasses.dataclass(frozen=True)
class Shards:
    """What lies in S3."""

    samples: int
    bytes: int

    def work(self, options):
        return {
            "source": [f"s3://{BUCKET}/train/{copy}/*.tar" for copy in "ab"],
            "field": "bin",
            "batch_size": 16,
            "options": options,
        }

    def row(self, name, answers, missing, peer, bar):
        each = self.bytes / self.samples
        return runs.make_row("s3", name, answers, missing, {peer: bar}, bytes_per_sample=each)


GETS = "penstock bench, its best GETs"


def s3_sides(bench, shards, env):
    """Epochs through a cache that is empty at first, and the store by itself."""
    cache = bench.folder / "cache"
    # So that there is an index, which is not part of an epoch.
    first = json.dumps({**shards.work({}), "open": True})
    bench.script("cached_epochs.py", first, env=env)

    def ours(turn):
        shutil.rmtree(cache, ignore_errors=True)
        os.sync()
        work = json.dumps(shards.work({"cache_dir": str(cache)}))
        return bench.script("cached_epochs.py", work, env=env)

    def store(turn):
        command = [runs.PENSTOCK, "bench", f"s3://{BUCKET}/bench", "--quick", "--json"]
        results = runs.run_json(command, {**os.environ, **env})["results"]
        return {"samples": best_get(results) * shards.samples / shards.bytes, "seconds": 1.0}

    return {runs.OURS: ours, GETS: store}


def near_rows(bench, shards, env):
    drive = f"penstock bench {DIRECT_READ}"
    each = shards.bytes / shards.samples
    alone = runs.penstock_bench(bench.data.drive_file(), DIRECT_READ, bench.seconds, each)
    sides = {**s3_sides(bench, shards, env), drive: alone}
    answers, missing = runs.take_turns(sides, bench.rounds)
    both = answers.pop(runs.OURS)
    first = {**answers, runs.OURS: [one["first"] for one in both]}
    second = {**answers, runs.OURS: [one["second"] for one in both]}
    name = "S3 shards, no decode,"
    return [
        shards.row(f"{name} first epoch, filling the cache", first, missing, GETS, 0.9),
        shards.row(f"{name} second epoch, from the cache", second, missing, drive, 0.9),
    ]


def far_row(bench, shards, env):
    """As S3 usually is: on other machines, which have processors of their own."""
    answers, missing = runs.take_turns(s3_sides(bench, shards, env), bench.rounds)
    answers[runs.OURS] = [one["first"] for one in answers[runs.OURS]]
    name = "S3 shards, no decode, first epoch, 20 ms away, link of 4 Gbit/s"
    shutil.rmtree(bench.folder / "cache", ignore_errors=True)
    return shards.row(name, answers, missing, GETS, 0.9)


ROWS = {
    "tar-large": lambda bench: warm_tar(bench, "large"),
    "tar-small": lambda bench: warm_tar(bench, "small"),
    "cold-large": lambda bench: cold_tar(bench, "large"),
    "cold-small": lambda bench: cold_tar(bench, "small"),
    "images": images,
    "folder": class_folder,
    "tokens": tokens,
    "records-photos": lambda bench: records(bench, "photos"),
    "records-small": lambda bench: records(bench, "small"),
    "resume": resume,
    "memory": memory,
    "s3": s3,
}


def main(tiny=False, quick=False, only=None):
    measure.raise_file_limit()
    rows = []
    with measure.scratch("loader", (1 if tiny else 12) << 30) as folder:
        bench = Bench(folder, tiny, quick)
        for key in only or ROWS:
            print(f"  {key}", flush=True)
            try:
                rows += ROWS[key](bench)
            except RuntimeError as error:
                rows.append(runs.failed_row(key, key, error))
    return rows
