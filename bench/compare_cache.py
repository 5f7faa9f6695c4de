"""The disk cache: warm against direct reads, cold against the store alone, hit rates, and memory.

Everything is read by bench/cache_driver, so that both sides of a row differ in nothing but what
they read from. A row says which requests were made, and how many at once.
"""

import dataclasses
import json
import os
import shutil
import subprocess
import tempfile

import measure
import servers
import stats

DRIVER = measure.ROOT / "build/release/bench/cache_driver"
POLICIES = measure.ROOT / "build/release/bench/cache_policies"
BUCKET = "bench-cache"

MIB = 1 << 20
GIB = 1 << 30

DELAY_MS = 10  # One way: a round trip of 20 ms.
SMALL_WINDOW = 256 << 10  # What one connection may have on the way.
LINK_RATE = 250_000_000  # Bytes per second: 2 Gbit/s.

# What the cache needs besides its windows and 64 bytes per entry: checksums of open entries (16
# MiB), the policy's fixed tables (8 MiB), names and logs. The program itself comes on top.
FIXED_MEMORY = 32 * MIB
ENTRY_MEMORY = 64


@dataclasses.dataclass(frozen=True)
class Sizes:
    rounds: int = 7
    warm: int = 4 * GIB
    random: int = 2 * GIB
    cold: int = GIB
    before: int = 256 * MIB  # What processes that ran for a while have read before.
    curl: int = 64 * MIB
    loop_objects: int = 16
    loop: int = 64 * MIB  # Of each object.
    epochs: int = 6
    entries: int = 1_000_000
    opened: int = 512 * MIB
    server_gib: int = 4


# Enough to see that everything works.
TINY = Sizes(
    rounds=1,
    warm=32 * MIB,
    random=8 * MIB,
    cold=32 * MIB,
    before=8 * MIB,
    curl=2 * MIB,
    loop_objects=16,
    loop=8 * MIB,
    epochs=3,
    entries=2000,
    opened=32 * MIB,
    server_gib=1,
)


def drive(*words, env=None):
    """Runs the driver; what it printed, if anything."""
    command = [str(word) for word in (DRIVER, *words)]
    done = subprocess.run(
        command, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout) if done.stdout else None


def read(*words, env=None):
    """One pass over the data: its only epoch."""
    answer = drive("read", *words, env=env)
    return {**answer, **answer["epochs"][0]}


def row(name, answers, ours, bytes_moved, peer, bar):
    made = {"name": name, "kind": "rate", **measure.compare(answers, ours, bytes_moved)}
    made |= {"ours": ours, "peer": peer, "bar": "–" if bar is None else f"≥ {bar} of {peer}"}
    made["passed"] = None if bar is None else made["ratios"][peer]["median"] >= bar
    return made


def warm_rows(sizes):
    with measure.scratch("warm", 3 * sizes.warm) as folder:
        tree, cache = folder / "tree", folder / "cache"
        tree.mkdir()
        drive("make", f"tree:{tree}", "--bytes", sizes.warm)
        drive("stage", f"tree:{tree}", "--cache", cache)

        def hit(*words):
            measure.drop_page_cache(folder)
            answer = read(f"tree:{tree}", "--cache", cache, *words)
            if answer["source_bytes"] != 0:
                raise RuntimeError(f"not warm: {answer}")
            return answer

        def raw(below, *words):
            measure.drop_page_cache(folder)
            return read(below, "--raw", *words)

        one_by_one = ["--block", "1MiB", "--depth", 8]
        sequential = {
            "cache": lambda turn: hit(*one_by_one),
            "direct reads": lambda turn: raw(tree, *one_by_one),
            "direct reads, checksummed": lambda turn: raw(tree, *one_by_one, "--look"),
            "direct reads, checksummed and copied": lambda turn: raw(tree, *one_by_one, "--copy"),
            "direct reads of the cache's files": lambda turn: raw(cache / "entries", *one_by_one),
        }
        name = f"warm sequential read of {size_text(sizes.warm)}, 1 MiB, depth 8"
        answers = measure.rounds(sequential, sizes.rounds)
        rows = [row(name, answers, "cache", sizes.warm, "direct reads", 0.9)]

        anywhere = ["--pattern", "random", "--block", "100KiB", "--depth", 16]
        anywhere += ["--bytes", sizes.random]
        unaligned = {
            "cache": lambda turn: hit(*anywhere, "--seed", turn),
            "direct reads": lambda turn: raw(tree, *anywhere, "--seed", turn),
            "direct reads, checksummed": lambda turn: raw(
                tree, *anywhere, "--look", "--seed", turn
            ),
            "direct reads, checksummed and copied": lambda turn: raw(
                tree, *anywhere, "--copy", "--seed", turn
            ),
        }
        answers = measure.rounds(unaligned, sizes.rounds)
        name = "warm random reads, 100 KiB at any offset, depth 16"
        return [*rows, row(name, answers, "cache", sizes.random, "direct reads", 0.9)]


class Cold:
    """Reads of one object of the server, through a cache that is empty each time, and without."""

    def __init__(self, sizes, folder, env, fresh=False):
        self.words = [f"s3://{BUCKET}/cold", "--block", "4MiB"]
        if not fresh:
            self.words += ["--before", f"s3://{BUCKET}/before"]
        self.words += ["--depth", 16]
        self.folder = folder
        self.env = env
        self.sizes = sizes

    def cached(self, turn):
        # Left there until the end: ext4 without a journal uses no inode again for minutes after
        # it was removed, and looks at each of those whenever it makes a file.
        cache = tempfile.mkdtemp(prefix="cache-", dir=self.folder)
        return read(*self.words, "--cache", cache, env=self.env)

    def alone(self, turn):
        return read(*self.words, env=self.env)

    def tee(self, turn):
        """What any cache has to do: read, and write what was read. With memory for both at once."""
        file = tempfile.mktemp(prefix="tee-", dir=self.folder)
        words = [*self.words[:-1], 2 * self.words[-1]]
        answer = read(*words, "--tee", file, env=self.env)
        os.unlink(file)
        return answer

    def curl(self, turn):
        """One stream of the first bytes, thrown away: as many times faster as it is shorter."""
        url = servers.s3_client(self.env).generate_presigned_url(
            "get_object", Params={"Bucket": BUCKET, "Key": "cold/object-000000"}
        )
        command = ["curl", "--silent", "--fail", "--noproxy", "*", "--output", "/dev/null"]
        command += ["--range", f"0-{self.sizes.curl - 1}", url]
        answer = measure.timed(command)
        scale = self.sizes.cold / self.sizes.curl
        return {key: answer[key] * scale for key in ("seconds", "cpu_seconds")}


def kept_share(answers, sizes):
    """Of what was read cold, how much then lay on the drive."""
    return stats.median([answer["kept_bytes"] / sizes.cold for answer in answers])


def cold_rows(sizes, server):
    rows = []
    env = server.env
    what = f"cold read of {size_text(sizes.cold)} from S3, 4 MiB, depth 16"
    with (
        measure.scratch("cold", (6 * sizes.rounds + 2) * sizes.cold) as folder,
        servers.bucket(server, BUCKET),
    ):
        drive("make", f"s3://{BUCKET}/cold", "--bytes", sizes.cold, env=env)
        drive("make", f"s3://{BUCKET}/before", "--bytes", sizes.before, env=env)
        near = Cold(sizes, folder, env)
        sides = {"cache": near.cached, "store alone": near.alone, "read and written": near.tee}
        answers = measure.rounds(sides, sizes.rounds)
        rows.append(row(what, answers, "cache", sizes.cold, "store alone", 0.9))
        rows[-1]["kept"] = kept_share(answers["cache"], sizes)
        fresh = Cold(sizes, folder, env, fresh=True)
        sides = {"cache": fresh.cached, "store alone": fresh.alone}
        answers = measure.rounds(sides, sizes.rounds)
        name = f"{what}, in a process that has just begun"
        rows.append(row(name, answers, "cache", sizes.cold, "store alone", None))
        rows[-1]["kept"] = kept_share(answers["cache"], sizes)
        rows += far_rows(sizes, folder, env, what)
    return rows


def far_rows(sizes, folder, env, what):
    options = ["--delay-ms", DELAY_MS, "--window", SMALL_WINDOW]
    with servers.far(env, *options) as small:
        cold = Cold(sizes, folder, small)
        sides = {"cache": cold.cached, "one curl": cold.curl, "store alone": cold.alone}
        answers = measure.rounds(sides, sizes.rounds)
        name = f"{what}, 20 ms away, windows of 256 KiB"
        rows = [row(name, answers, "cache", sizes.cold, "one curl", 8)]
        rows[-1]["kept"] = kept_share(answers["cache"], sizes)
    options = ["--delay-ms", DELAY_MS, "--rate", LINK_RATE]
    with servers.far(env, *options) as link:
        cold = Cold(sizes, folder, link)
        sides = {"cache": cold.cached, "one curl": cold.curl, "store alone": cold.alone}
        answers = measure.rounds(sides, sizes.rounds)
        answers["the link"] = [{"seconds": sizes.cold / LINK_RATE} for _ in answers["cache"]]
        name = f"{what}, 20 ms away, link of 2 Gbit/s"
        rows.append(row(name, answers, "cache", sizes.cold, "the link", 0.9))
        rows[-1]["kept"] = kept_share(answers["cache"], sizes)
    return rows


# name, pattern and block of the reads, and the trace of cache_policies that is the same
LOOPS = [
    ("cyclic scan", ["sequential", "1MiB"], "loop-2"),
    ("whole objects in another order each epoch", ["shuffled-objects", "1MiB"], "shuffled"),
    ("samples of 100 KiB in another order each epoch", ["shuffled", "100KiB"], "samples"),
]


def lru_hits():
    done = subprocess.run([POLICIES, "--json"], check=True, capture_output=True, text=True)
    return {trace["name"]: trace["LRU"]["hits"] for trace in json.loads(done.stdout)}


def hit_rate(address, env, cache, sizes, pattern, block, turn):
    """Of the bytes read after the first epoch, the share that the source was not asked for.

    Neighbours that were fetched and not wanted count against it; the other figure is without them:
    the share that did not have to wait for the source. Memory is as small as it can be, so that it
    is the drive that hits.
    """
    quota = sizes.loop_objects * sizes.loop // 2
    words = ["--pattern", pattern, "--block", block, "--epochs", sizes.epochs]
    words += ["--seed", 1 + turn * sizes.epochs]
    words += ["--cache", cache, "--quota", quota, "--memory", 64 * MIB]
    epochs = drive("read", address, *words, env=env)["epochs"][1:]
    shutil.rmtree(cache)
    total = sum(epoch["bytes"] for epoch in epochs)
    return [1 - sum(e[field] for e in epochs) / total for field in ("source_bytes", "miss_bytes")]


def hit_rows(sizes, server):
    lru = lru_hits()
    total = sizes.loop_objects * sizes.loop
    address = f"s3://{BUCKET}/loop"
    rows = []
    with measure.scratch("loop", total) as folder, servers.bucket(server, BUCKET):
        many = ["--objects", sizes.loop_objects, "--bytes", sizes.loop]
        drive("make", address, *many, env=server.env)
        where = [address, server.env, folder / "cache"]
        for name, (pattern, block), trace in LOOPS:
            runs = range(max(1, sizes.rounds // 2))
            hits = [hit_rate(*where, sizes, pattern, block, i) for i in runs]
            full_name = f"hits: {name}, {size_text(total)} with a cache of half of it"
            made = {"name": full_name, "kind": "share", "bar": "≥ 0.45", "peer": "LRU"}
            made |= {"ours": stats.median([one for one, _ in hits]), "theirs": lru[trace]}
            made |= {"not_waiting": stats.median([other for _, other in hits]), "runs": hits}
            rows.append({**made, "passed": made["ours"] >= 0.45})
    return rows


def open_rows(sizes):
    with measure.scratch("open", 3 * sizes.opened + 4096 * sizes.entries) as folder:
        tree, cache = folder / "tree", folder / "cache"
        tree.mkdir()
        drive("make", f"tree:{tree}", "--bytes", sizes.opened)
        drive("stage", f"tree:{tree}", "--cache", cache)
        drive("entries", cache, "--count", sizes.entries)
        words = [f"tree:{tree}", "--cache", cache, "--entries", sizes.entries]
        words += ["--block", "100KiB", "--depth", 16, "--bytes", sizes.opened]
        answers = []
        for turn in range(max(2, sizes.rounds // 2)):
            measure.drop_page_cache(tree)
            cold = measure.drop_names()
            answers.append({**drive("open", *words, "--seed", turn + 1), "cold_names": cold})
    return make_open_rows(sizes, answers)


def make_open_rows(sizes, answers):
    """The worst of the runs: the first has no index that an earlier one left."""
    ready = max(one["open_seconds"] + one["first_hit_seconds"] for one in answers)
    counted = max(one["counted_seconds"] for one in answers)
    names = f"{sizes.entries:,} entries".replace(",", " ")
    opening = {"name": f"opening a cache of {names} until its first hit", "kind": "seconds"}
    opening |= {"ours": ready, "counted": counted, "bar": "< 2 s", "passed": ready < 2}
    opening["first_hit"] = max(one["first_hit_seconds"] for one in answers)
    return [opening, memory_row(names, answers)]


def memory_row(names, answers):
    """Also without the windows, which may not have needed all that they may have."""
    worst = max(answers, key=lambda one: one["rss_peak_bytes"])
    rest_ceiling = ENTRY_MEMORY * worst["entries"] + FIXED_MEMORY
    ceiling = worst["rss_before_bytes"] + worst["memory_bytes"] + rest_ceiling
    rest = worst["rss_peak_bytes"] - worst["rss_before_bytes"] - worst["memory_peak_bytes"]
    made = {"name": f"memory of a process with a cache of {names}", "kind": "memory"}
    made |= {"ours": worst["rss_peak_bytes"], "theirs": ceiling, "bar": "≤ both ceilings"}
    made |= {"rest": rest, "rest_ceiling": rest_ceiling, "runs": answers}
    return {**made, "passed": made["ours"] <= ceiling and rest <= rest_ceiling}


def size_text(count):
    return f"{count // GIB} GiB" if count % GIB == 0 else f"{count // MIB} MiB"


def main(tiny=False):
    sizes = TINY if tiny else Sizes()
    with servers.s3_server(sizes.server_gib, reuse=tiny) as server:
        # First, for the same reason that their caches are left: nothing has been removed yet.
        cold = cold_rows(sizes, server)
        warm = warm_rows(sizes)
        hits = hit_rows(sizes, server)
    return [*warm, *cold, *hits, *open_rows(sizes)]
