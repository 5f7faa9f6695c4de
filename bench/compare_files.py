"""`penstock bench` against fio on the same file: direct reads and writes, in interleaved pairs."""

import json
import pathlib
import shutil
import subprocess
import tempfile

import stats

ROOT = pathlib.Path(__file__).resolve().parent.parent
PENSTOCK = ROOT / "build/release/src/cli/penstock"
SIZE = 1 << 30
SECONDS = 1.5
BARS = {"median": 0.95, "low_of_writes": 0.85}

# name, our case, fio's flags, what is compared, pairs
CASES = [
    (
        "sequential read, 1 MiB, depth 8",
        "read:sequential:direct:1MiB:8",
        ["--rw=read", "--bs=1M", "--iodepth=8"],
        "bytes",
        15,
    ),
    (
        "random read, 4 KiB, depth 32",
        "read:random:direct:4KiB:32",
        ["--rw=randread", "--bs=4k", "--iodepth=32"],
        "ops",
        15,
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


def measure(folder, name, case, flags, what, pairs):
    write = case.startswith("write")
    new_file = "new file" in name
    sides = {
        "penstock": lambda: run_penstock(folder, case, write, new_file)[what],
        "fio": lambda: run_fio(folder, flags, write, new_file)[what],
    }
    rates = {"penstock": [], "fio": []}
    sides["penstock"]()  # Warm: memory, clocks, the device's own caches.
    for turn in range(pairs):
        # Alternate who goes first, so that drift helps nobody.
        for side in list(sides) if turn % 2 == 0 else list(reversed(sides)):
            rates[side].append(sides[side]())
    ours, theirs = rates["penstock"], rates["fio"]
    ratio = stats.ratio(ours, theirs)
    passed = ratio["median"] >= BARS["median"]
    if write:
        passed = passed and ratio["low"] > BARS["low_of_writes"]
    return {
        "name": name,
        "unit": what + "/s",
        "penstock": stats.median(ours),
        "fio": stats.median(theirs),
        "ratio": ratio,
        "bar": "≥ 0.95" + (", interval above 0.85" if write else ""),
        "passed": passed,
    }


def lay_down(path):
    subprocess.run(
        ["fio", "--name=lay", f"--filename={path}", "--direct=1", "--ioengine=io_uring"]
        + [f"--size={SIZE}", "--rw=write", "--bs=1M", "--iodepth=8", "--end_fsync=1"],
        check=True,
        capture_output=True,
    )


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="compare-files-", dir=ROOT / "build"))
    try:
        lay_down(folder / "data")
        return [measure(folder, *case) for case in CASES]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
