"""Rows of compare_volumes.py with an S3 server: cold reads, the disk cache, files copied in."""

import contextlib
import json
import os
import shutil

import measure
import mounts
import servers
import stats

STORE_DRIVER = measure.ROOT / "build/release/bench/store_driver"
BUCKET = "bench-volumes"
PEERS = (mounts.S3fs, mounts.Rclone)
COPYING_PEERS = (*PEERS, mounts.PlainRclone)
MIB = 1 << 20
PART_BYTES = 16 * MIB
AT_ONCE = 32
PUTS = "PUTs of 16 MiB"


def bare(verb, prefix, total, env):
    """What the store alone does with that server: what `penstock bench s3://` measures."""
    count = max(1, total // PART_BYTES)
    words = [STORE_DRIVER, verb, f"s3://{BUCKET}/{prefix}", count, PART_BYTES, AT_ONCE]
    answer = json.loads(mounts.call(*words, env=env))
    return {"seconds": answer["seconds"] * total / answer["bytes"]}


class Cold:
    """A mount that is made anew for each measurement: nothing is in anyone's memory."""

    def __init__(self, base, env):
        self.base = base
        self.env = env

    def peer(self, kind, work):
        mounted = kind(self.base, BUCKET, self.env)
        try:
            return work(mounted.folder / "peers")
        finally:
            mounted.close()

    def ours(self, volume, work):
        volume.remount()
        return work(volume.folder / "peers")


def compared(base, volume, env, sizes, work, others):
    """`work` of a folder, by all of them; `others`: what else is measured in each round."""
    cold = Cold(base, env)
    sides = {"penstock": lambda turn: cold.ours(volume, work)}
    for kind in PEERS:
        sides[kind.label] = lambda turn, kind=kind: cold.peer(kind, work)
    return measure.rounds(sides | others, sizes.s3_rounds)


def better_peer(answers):
    labels = [kind.label for kind in COPYING_PEERS if kind.label in answers]
    medians = {label: stats.median([one["seconds"] for one in answers[label]]) for label in labels}
    return min(medians, key=medians.get)


def volume_on_s3(base, env, options=()):
    create = ["--store", f"s3://{BUCKET}/volume"]
    return mounts.Volume(base, "far", create=create, options=options, env=env)


def put_for_peers(folder, env):
    """The same files as objects, for those who map them one to one."""
    mounts.call(mounts.PENSTOCK, "sync", folder, f"s3://{BUCKET}/peers", env=env)


@contextlib.contextmanager
def served(sizes):
    with servers.s3_server(sizes.server_gib, reuse=True) as server, servers.bucket(server, BUCKET):
        yield server


def read_rows(base, sizes, row):
    """row: compare_volumes.row."""
    rows = []
    with served(sizes) as server:
        env = server.env
        source = base / "source" / "peers"
        (source / "files").mkdir(parents=True)
        mounts.drive("write", source / "large", "--bytes", sizes.s3_large)
        words = ["--count", sizes.s3_files, "--bytes", sizes.file]
        mounts.drive("create", source / "files", *words)
        put_for_peers(source, env)
        volume = volume_on_s3(base, env)
        with contextlib.closing(volume):
            mounts.call("cp", "-r", source, volume.folder)
            bare("put", "bare", sizes.s3_large, env)
            answers = compared(
                base,
                volume,
                env,
                sizes,
                lambda folder: mounts.drive("read", folder / "large"),
                {"penstock bench": lambda turn: bare("get", "bare", sizes.s3_large, env)},
            )
            bars = {better_peer(answers): 1.5, "penstock bench": 0.7}
            name = f"cold sequential read of {sizes.s3_large // MIB} MiB from S3"
            rows.append(row(name, answers, sizes.s3_large, bars, "bytes/s"))
            answers = compared(
                base,
                volume,
                env,
                sizes,
                lambda folder: mounts.drive("read-files", folder / "files", *words),
                {},
            )
            name = f"cold read of {sizes.s3_files} files of {sizes.file >> 10} KiB from S3"
            rows.append(row(name, answers, sizes.s3_files, {better_peer(answers): 8}, "/s"))
        rows.append(cached_row(base, sizes, row, env, source))
    return rows


def cached_row(base, sizes, row, env, source):
    """All in the disk cache, nothing in memory; beside it, direct reads of the same bytes."""
    cache = base / "cache"
    options = ["--cache-dir", cache, "--memory", 64 * MIB]
    volume = mounts.Volume(
        base,
        "cached",
        create=["--store", f"s3://{BUCKET}/cached", "--compression", "none"],
        options=options,
        env=env,
    )
    with contextlib.closing(volume):
        mounts.call("cp", source / "large", volume.folder)
        volume.remount()
        mounts.drive("read", volume.folder / "large")  # Fills the cache.

        def ours(turn):
            volume.remount()
            measure.drop_page_cache(cache)
            return mounts.drive("read", volume.folder / "large")

        def direct(turn):
            measure.drop_page_cache(source)
            return mounts.drive("read", source / "large", "--direct")

        answers = measure.rounds({"penstock": ours, "direct read": direct}, sizes.s3_rounds)
    name = f"sequential read of {sizes.s3_large // MIB} MiB, only in the disk cache"
    return row(name, answers, sizes.s3_large, {"direct read": 0.7}, "bytes/s")


def copy_rows(base, sizes, row):
    with served(sizes) as server:
        env = server.env
        source = base / "source"
        source.mkdir()
        mounts.drive("create", source, "--count", sizes.copied, "--bytes", sizes.file)
        few = base / "few"
        few.mkdir()
        mounts.drive("create", few, "--count", sizes.copied_peers, "--bytes", sizes.file)
        total = sizes.copied * sizes.file
        drained = []  # From the first file on, and of those what waited when the last was copied.
        waiting = []

        def timed_copy(what, folder):
            command = ["taskset", "-c", mounts.CLIENT_CORE, "cp", "-r", what, folder]
            return measure.timed(command)["seconds"]

        def ours(turn):
            # As before the bare PUTs: into memory that the server has used before, which is what
            # such a server is fast with.
            servers.empty_bucket(server, BUCKET)
            place = base / f"turn-{turn}"
            place.mkdir()
            volume = volume_on_s3(place, env)
            with contextlib.closing(volume):
                acknowledged = timed_copy(source, volume.folder / "copy")
                left = volume.status()["pending"]["content_bytes"]
                rest = measure.timed(
                    [mounts.PENSTOCK, "umount", volume.folder], env={**os.environ, **volume.env}
                )["seconds"]
            drained.append({"seconds": acknowledged + rest})
            waiting.append({"seconds": rest * total / max(left, 1)})
            shutil.rmtree(place)
            return {"seconds": acknowledged}

        def peer(kind, turn):
            mounted = kind(base, BUCKET, env)
            try:
                seconds = timed_copy(few, mounted.folder / f"copy-{turn}")
            finally:
                mounted.close()
            return {"seconds": seconds * sizes.copied / sizes.copied_peers}

        def plain(turn):
            folder = base / f"plain-{turn}"
            seconds = timed_copy(source, folder)
            shutil.rmtree(folder)
            return {"seconds": seconds}

        def ceiling(turn):
            servers.empty_bucket(server, BUCKET)
            return bare("put", "bare", total, env)

        sides = {"penstock": ours, PUTS: ceiling, "ext4": plain}
        for kind in COPYING_PEERS:
            sides[kind.label] = lambda turn, kind=kind: peer(kind, turn)
        answers = measure.rounds(sides, sizes.s3_rounds)
        ceilings = answers.pop(PUTS)
        text = f"cp -r of {sizes.copied:,} files of {sizes.file >> 10} KiB to S3".replace(",", " ")
        best = better_peer(answers)
        rows = [row(f"{text}, acknowledged", answers, sizes.copied, {best: 20}, "/s")]
        for name, times, bars in (
            ("what waits when it ends, to the store", waiting, {PUTS: 0.85}),
            ("from the first file until all is in the store", drained, {}),
        ):
            both = {"penstock": times[-len(ceilings) :], PUTS: ceilings}
            rows.append(row(f"{text}: {name}", both, total, bars, "bytes/s"))
        return rows
