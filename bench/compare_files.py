"""`penstock bench` against fio on the same file: direct reads and writes, in interleaved rounds.

fio runs twice in each round: with its buffers in plain pages, its default, and in huge ones, as
ours are. A virtual disk moves far fewer pieces then. The bars are against the faster of the two.
"""

import contextlib
import json
import os
import pathlib
import subprocess

import measure
import stats

ROOT = pathlib.Path(__file__).resolve().parent.parent
PENSTOCK = ROOT / "build/release/src/cli/penstock"
SIZE = 1 << 30
SECONDS = 1.5
BARS = {"median": 0.95, "low_of_writes": 0.85}
HUGE_PAGES = pathlib.Path("/proc/sys/vm/nr_hugepages")
HUGE_FLAGS = ["--mem=shmhuge", "--hugepage-size=2m"]

# name, our case, fio's flags, what is compared, rounds
CASES = [
    (
        "sequential read, 1 MiB, depth 8",
        "read:sequential:direct:1MiB:8",
        ["--rw=read", "--bs=1M", "--iodepth=8"],
        "bytes",
        21,
    ),
    (
        "random read, 4 KiB, depth 32",
        "read:random:direct:4KiB:32",
        ["--rw=randread", "--bs=4k", "--iodepth=32"],
        "ops",
        21,
    ),
    (
        "sequential write, 1 MiB, depth 8",
        "write:sequential:direct:1MiB:8",
        ["--rw=write", "--bs=1M", "--iodepth=8"],
        "bytes",
        21,
    ),
    (
        "sequential write of a new file, 1 MiB, depth 8",
        "write:sequential:direct:1MiB:8",
        ["--rw=write", "--bs=1M", "--iodepth=8", "--fallocate=posix"],
        "bytes",
        21,
    ),
]


def run_json(command):
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def run_fio(folder, flags, write, new_file):
    """Bytes and operations per second. Writes end with an fsync; a new file is filled once."""
    path = folder / ("new" if new_file else "data")
    command = ["fio", "--name=x", f"--filename={path}", "--direct=1", "--ioengine=io_uring"]
    command += [f"--size={SIZE}", "--output-format=json", "--randrepeat=0", *flags]
    if write:
        command.append("--end_fsync=1")
    if not new_file:
        command += ["--time_based", f"--runtime={SECONDS}"]
    if new_file:
        path.unlink(missing_ok=True)
    side = run_json(command)["jobs"][0]["write" if write else "read"]
    return {"bytes": side["bw_bytes"], "ops": side["iops"]}


def run_penstock(folder, case, write, new_file):
    target = folder if write else folder / "data"
    command = [PENSTOCK, "bench", target, "--case", case, "--json", "--seconds", SECONDS]
    if write:
        command += ["--size", SIZE]
    results = run_json(command)["results"]
    result = next(r for r in results if r["new_file"] == new_file)
    return {"bytes": result["throughput_bytes_per_second"], "ops": result["ops_per_second"]}


def compare(folder, name, case, flags, what, rounds):
    write = case.startswith("write")
    new_file = "new file" in name
    sides = {
        "penstock": lambda: run_penstock(folder, case, write, new_file)[what],
        "fio": lambda: run_fio(folder, flags, write, new_file)[what],
        "fio_huge": lambda: run_fio(folder, flags + HUGE_FLAGS, write, new_file)[what],
    }
    rates = {side: [] for side in sides}
    sides["penstock"]()  # Warm: memory, clocks, the device's own caches.
    for turn in range(rounds):
        # Who goes first changes, so that drift helps nobody.
        order = list(sides)[turn % 3 :] + list(sides)[: turn % 3]
        for side in order:
            rates[side].append(sides[side]())
    medians = {side: stats.median(values) for side, values in rates.items()}
    faster = max(("fio", "fio_huge"), key=medians.get)
    ratio = stats.ratio(rates["penstock"], rates[faster])
    passed = ratio["median"] >= BARS["median"]
    if write:
        passed = passed and ratio["low"] > BARS["low_of_writes"]
    return {
        "name": name,
        "unit": what + "/s",
        **medians,
        "faster": faster,
        "ratio": ratio,
        "bar": "≥ 0.95" + (", interval above 0.85" if write else ""),
        "passed": passed,
    }


@contextlib.contextmanager
def huge_pages(count=32):
    """Sets so many aside for fio, whose shmhuge takes no others, and gives them back."""
    if os.geteuid() != 0:
        raise PermissionError("fio's buffers in huge pages take root (vm.nr_hugepages): use sudo")
    before = HUGE_PAGES.read_text()
    try:
        HUGE_PAGES.write_text(str(int(before) + count))
        if int(HUGE_PAGES.read_text()) < int(before) + count:
            raise MemoryError(f"the system has no {count} huge pages left to set aside")
        yield
    finally:
        HUGE_PAGES.write_text(before)


def lay_down(path):
    subprocess.run(
        ["fio", "--name=lay", f"--filename={path}", "--direct=1", "--ioengine=io_uring"]
        + [f"--size={SIZE}", "--rw=write", "--bs=1M", "--iodepth=8", "--end_fsync=1"],
        check=True,
        capture_output=True,
    )


def main():
    with measure.scratch("files", 2 * SIZE) as folder, huge_pages():
        lay_down(folder / "data")
        return [compare(folder, *case) for case in CASES]
