"""A mounted volume against ext4 itself, bindfs over it, and other mounts of the same S3.

All do the same system calls (bench/file_driver), in turn. Who serves is on one core, who asks on
the other.
"""

import contextlib
import dataclasses

import measure
import mounts
import stats
import volume_s3

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Sizes:
    rounds: int = 3
    large: int = GIB
    files: int = 20_000
    file: int = 100 * KIB
    synced: int = 500  # Appends, and overwrites.
    overwritten: int = 256 * MIB  # The file that they go to.
    s3_large: int = GIB
    s3_files: int = 2000
    s3_rounds: int = 3
    copied: int = 10_000
    copied_peers: int = 500  # They take a minute for so many.
    names: int = 1_000_000
    server_gib: int = 6


TINY = Sizes(
    rounds=1,
    large=16 * MIB,
    files=60,
    file=10 * KIB,
    synced=20,
    overwritten=MIB,
    s3_large=8 * MIB,
    s3_files=20,
    s3_rounds=1,
    copied=30,
    copied_peers=10,
    names=300,
    server_gib=1,
)


def row(name, answers, count, bars, unit):
    """`answers`: of each side, a dictionary with seconds in each round. bars: {other: at least}."""
    made = {"name": name, "unit": unit, **measure.compare(answers, "penstock", count)}
    made["bar"] = ", ".join(f"≥ {least} × {other}" for other, least in bars.items()) or "–"
    met = [made["ratios"][other]["median"] >= least for other, least in bars.items()]
    return {**made, "passed": all(met) if bars else None}


class Sides:
    """The three of one machine; a method measures all in turn."""

    def __init__(self, base, sizes, **volume):
        self.sizes = sizes
        self.stack = contextlib.ExitStack()
        self.all = []
        for make in (mounts.Plain, mounts.Bindfs, lambda base: mounts.Volume(base, **volume)):
            side = make(base)
            self.stack.callback(side.close)
            self.all.append(side)

    @property
    def volume(self):
        return self.all[-1]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stack.close()

    def each(self, work):
        for side in self.all:
            work(side)

    def rounds(self, work):
        sides = {side.label: lambda turn, side=side: work(side, turn) for side in self.all}
        return measure.rounds(sides, self.sizes.rounds)


def large_rows(base, sizes):
    size = measure_text(sizes.large)
    rows = []
    with Sides(base, sizes, options=["--memory", 2 * sizes.large + 256 * MIB]) as sides:

        def write(side, turn):
            return mounts.drive("write", side.folder / "large", "--bytes", sizes.large)

        answers = sides.rounds(write)
        name = f"sequential write of {size}, then fsync"
        rows.append(row(name, answers, sizes.large, {"ext4": 0.6}, "bytes/s"))
        sides.volume.remount()  # What was overwritten and what is moved are not in the way.

        def read(side, turn):
            return mounts.drive("read", side.folder / "large")

        def read_again(side, turn):
            measure.drop_page_cache(side.folder)  # The kernel's of the mount, not the server's.
            return read(side, turn)

        def with_pages(side, turn):
            read(side, turn)
            return read(side, turn)

        sides.each(lambda side: read(side, 0))
        answers = sides.rounds(read_again)
        name = f"sequential read of {size}, in the server's memory, not in the kernel's"
        # That of ext4 is the kernel's: there it reads the drive.
        rows.append(row(name, answers, sizes.large, {"bindfs": 2}, "bytes/s"))
        answers = sides.rounds(with_pages)
        name = f"sequential read of {size}, in the kernel's memory"
        rows.append(row(name, answers, sizes.large, {"ext4": 0.5}, "bytes/s"))
        rows.append(memory_row("large files", sides.volume, 2 * sizes.large + 256 * MIB))
    return rows


def files_rows(base, sizes):
    count = ["--count", sizes.files]
    rows = []
    with Sides(base, sizes) as sides:
        requests = {}

        def counted(side, work, path, *words):
            """Of the volume also how many requests came to its server."""
            before = requests_of(side)
            answer = mounts.drive(work, path, *words)
            if before is not None:
                requests.setdefault(work, []).append(
                    (requests_of(side) - before) / answer["operations"]
                )
            return answer

        def create(side, turn):
            folder = side.folder / f"made-{turn}"
            folder.mkdir()
            return counted(side, "create", folder, *count)

        def stat(side, turn):
            folder = side.folder / f"made-{turn}"
            return counted(side, "stat", folder, *count)

        def unlink(side, turn):
            folder = side.folder / f"made-{turn}"
            return counted(side, "unlink", folder, *count)

        bars = {"create": {"bindfs": 3}, "stat": {"bindfs": 5}, "unlink": {"bindfs": 1.5}}
        for name, work in {"create": create, "stat": stat, "unlink": unlink}.items():
            one = row(
                f"{name} {sizes.files:,} files".replace(",", " "),
                sides.rounds(work),
                sizes.files,
                bars[name],
                "/s",
            )
            one["requests"] = stats.median(requests[name])
            rows.append(one)
        answers = sides.rounds(lambda side, turn: mounts.drive("statfs", side.folder, *count))
        rows.append(row("one request and its answer (statfs)", answers, sizes.files, {}, "/s"))
        rows += read_files_rows(sides, sizes)
        rows.append(memory_row("small files", sides.volume, DEFAULT_MEMORY))
    return rows


def read_files_rows(sides, sizes):
    words = ["--count", sizes.files, "--bytes", sizes.file]
    for side in sides.all:
        (side.folder / "read").mkdir()
        mounts.drive("create", side.folder / "read", *words)
    sides.volume.remount()

    def read(side, turn):
        return mounts.drive("read-files", side.folder / "read", *words)

    count = f"{sizes.files:,}".replace(",", " ")
    what = f"read {count} files of {sizes.file // KIB} KiB, warm"
    sides.each(lambda side: read(side, 0))
    rows = [row(what, sides.rounds(read), sizes.files, {"bindfs": 3}, "/s")]
    sides.volume.remount("--ro")
    sides.each(lambda side: read(side, 0))
    rows.append(row(f"{what}, --ro", sides.rounds(read), sizes.files, {"bindfs": 6}, "/s"))
    return rows


def requests_of(side):
    return sum(side.status()["requests"].values()) if isinstance(side, mounts.Volume) else None


SYNCED = {
    "append": ("1 KiB appended, then fsync", KIB),
    "overwrite": ("4 KiB overwritten anywhere, then fsync", 4 * KIB),
}


def synced_rows(base, sizes):
    return [synced_row(base, sizes, work) for work in SYNCED]


def synced_row(base, sizes, work):
    name, size = SYNCED[work]
    folder = base / work
    folder.mkdir()
    with Sides(folder, sizes) as sides:
        if work == "overwrite":
            words = ["--bytes", sizes.overwritten]
            sides.each(lambda side: mounts.drive("write", side.folder / "file", *words))
        sides.volume.remount()
        stored = stored_bytes(sides.volume)

        def synced(side, turn):
            words = ["--count", sizes.synced, "--bytes", size, "--seed", turn + 1]
            return mounts.drive(work, side.folder / "file", *words)

        answers = sides.rounds(synced)
        sides.volume.remount()
        written = sizes.synced * size * (sizes.rounds + 1)
        one = row(name, answers, sizes.synced, {"ext4": 0.3}, "/s")
        one["stored_per_byte"] = (stored_bytes(sides.volume) - stored) / written
        one["bar"] += ", stored < 4 × written"
        one["passed"] = one["passed"] and one["stored_per_byte"] < 4
        return one


def stored_bytes(volume):
    return volume.status()["stored_bytes"]


def names_rows(base, sizes):
    """ls -lR, as people type it."""
    rows = []
    with Sides(base, sizes) as sides:
        volume = sides.volume
        mounts.drive("create", volume.folder, "--count", sizes.names)
        volume.remount()
        seconds = {}
        for state in ("cold", "warm"):
            answer = measure.timed(
                ["taskset", "-c", mounts.CLIENT_CORE, "sh", "-c", 'ls -lR "$0" | wc -l']
                + [str(volume.folder)]
            )
            seconds[state] = answer["seconds"]
        volume.peak_bytes = max(volume.peak_bytes, mounts.peak_memory(volume.pid))
        for state, bar in {"cold": 20, "warm": 10}.items():
            count = f"{sizes.names:,}".replace(",", " ")
            name = f"ls -lR of {count} files, {state}"
            one = {"name": name, "unit": "seconds", "ours": seconds[state], "bar": f"< {bar} s"}
            rows.append({**one, "passed": seconds[state] < bar})
        rows.append(memory_row(f"{sizes.names:,} names".replace(",", " "), volume, DEFAULT_MEMORY))
    return rows


DEFAULT_MEMORY = 256 * MIB
# Besides the memory that it was given: see docs/VOLUMES.md.
FIXED_MEMORY = 512 * MIB


def memory_row(what, volume, given):
    peak = max(volume.peak_bytes, mounts.peak_memory(volume.pid))
    ceiling = given + FIXED_MEMORY
    made = {"name": f"memory of the server, after {what}", "unit": "memory", "ours": peak}
    return {**made, "bar": f"≤ {ceiling // MIB} MiB", "passed": peak <= ceiling}


def measure_text(count):
    return f"{count // GIB} GiB" if count % GIB == 0 else f"{count // MIB} MiB"


def main(tiny=False, only=None, quick=False):
    sizes = TINY if tiny else Sizes()
    if quick:
        sizes = dataclasses.replace(sizes, rounds=2, s3_rounds=1)
    rows = []
    for name, work in ROWS.items():
        if only and name not in only:
            continue
        with measure.scratch("volumes", 20 * sizes.large) as base:
            rows += work(base, sizes)
    return rows


ROWS = {
    "large": large_rows,
    "files": files_rows,
    "synced": synced_rows,
    "s3-read": lambda base, sizes: volume_s3.read_rows(base, sizes, row),
    "s3-copy": lambda base, sizes: volume_s3.copy_rows(base, sizes, row),
    "names": names_rows,
}
