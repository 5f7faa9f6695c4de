"""penstock.Checkpointer beside torch.save, safetensors, DCP, a bare memcpy, dd and penstock bench.

Two states: 2 GiB in 400 tensors, 200 MiB in 20,000. Candidates take turns, round after round; each
saves to a place of its own, and what was there before is deleted first. Ours keeps its arena from
round to round, as it does in a run; the others have nothing to keep.
"""

import concurrent.futures
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import measure
import stats

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "build/release/python"))
PENSTOCK = ROOT / "build/release/src/cli/penstock"
STATES = {"large": (400, 2 << 30), "small": (20_000, 200 << 20)}
LOADS = 5


def make_state(count, total):
    import torch

    each = total // count // 4
    return {f"layers.{i}.weight": torch.full((each,), float(i % 251)) for i in range(count)}


def sync_directory(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def publish(temporary, final):
    """What a careful user adds to a library that only writes a file."""
    fd = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, final)
    sync_directory(final.parent)


class Ours:
    name = "penstock"

    def __init__(self, folder):
        import penstock

        self.folder = folder / "penstock"
        self.ckpt = penstock.Checkpointer(self.folder, keep_last=1)
        self.step = 0

    def begin(self, state):
        """Returns when training could go on; what is returned says when it is done."""
        self.step += 1
        handle = self.ckpt.save(self.step, state)
        return lambda: handle.done

    def save(self, state):
        self.step += 1
        start = time.perf_counter()
        handle = self.ckpt.save(self.step, state)
        stall = time.perf_counter() - start
        handle.durable()
        durable = time.perf_counter() - start
        handle.replicated()  # The one before is removed: whoever is next has the disk alone.
        return stall, durable

    def load(self):
        return self.ckpt.load()

    def close(self):
        self.ckpt.close()


class Blocking:
    """One that returns when all is written: in a thread, so that training goes on."""

    pool = concurrent.futures.ThreadPoolExecutor(1)

    def begin(self, state):
        return self.pool.submit(self.save, state).done

    def close(self):
        pass


class TorchSave(Blocking):
    name = "torch.save"

    def __init__(self, folder):
        self.folder = folder / "torch"
        self.folder.mkdir()

    def save(self, state):
        import torch

        start = time.perf_counter()
        torch.save(state, self.folder / "tmp")
        publish(self.folder / "tmp", self.folder / "state.pt")
        time_ = time.perf_counter() - start
        return time_, time_

    def load(self):
        import torch

        return torch.load(self.folder / "state.pt", weights_only=True)


class Safetensors(Blocking):
    name = "safetensors"

    def __init__(self, folder):
        self.folder = folder / "safetensors"
        self.folder.mkdir()

    def save(self, state):
        from safetensors.torch import save_file

        start = time.perf_counter()
        save_file(state, self.folder / "tmp")
        publish(self.folder / "tmp", self.folder / "state.safetensors")
        time_ = time.perf_counter() - start
        return time_, time_

    def load(self):
        from safetensors.torch import load_file

        return load_file(self.folder / "state.safetensors")


class Dcp:
    """async_save: it syncs its files, but neither names nor directories."""

    def __init__(self, folder, kind):
        import torch.distributed as dist

        self.kind = kind
        self.name = f"DCP async ({kind})"
        self.folder = folder / f"dcp-{kind}"
        if not dist.is_initialized():
            dist.init_process_group(
                "gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1
            )

    def start(self, state):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

        kind = AsyncCheckpointerType(self.kind)
        return dcp.async_save(state, checkpoint_id=str(self.folder), async_checkpointer_type=kind)

    def begin(self, state):
        shutil.rmtree(self.folder, ignore_errors=True)
        return self.start(state).done

    def save(self, state):
        shutil.rmtree(self.folder, ignore_errors=True)
        start = time.perf_counter()
        future = self.start(state)
        stall = time.perf_counter() - start
        future.result()
        return stall, time.perf_counter() - start

    def load(self):
        import torch
        import torch.distributed.checkpoint as dcp

        metadata = dcp.FileSystemReader(str(self.folder)).read_metadata().state_dict_metadata
        state = {
            name: torch.empty(one.size, dtype=one.properties.dtype)
            for name, one in metadata.items()
        }
        dcp.load(state, checkpoint_id=str(self.folder))
        return state

    def close(self):
        pass


class Memcpy:
    """The bytes of the state, by as many threads as ours, into memory that is warm."""

    def __init__(self, state):
        import torch

        # One stretch: 20,000 calls would measure Python.
        self.source = torch.cat([t.view(torch.uint8) for t in state.values()])
        self.total = self.source.numel()
        self.target = torch.zeros_like(self.source)
        self.threads = os.cpu_count()
        self.pool = concurrent.futures.ThreadPoolExecutor(self.threads)

    def run(self):
        share = self.total // self.threads

        def copy(i):
            size = share if i + 1 < self.threads else self.total - share * i
            at = share * i
            ctypes.memmove(self.target.data_ptr() + at, self.source.data_ptr() + at, size)

        start = time.perf_counter()
        list(self.pool.map(copy, range(self.threads)))
        return time.perf_counter() - start


def run_dd(folder, total):
    path = folder / "dd"
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    command = ["dd", "if=/dev/zero", f"of={path}", "bs=4M", f"count={total >> 22}"]
    start = time.perf_counter()
    subprocess.run([*command, "oflag=direct", "conv=fsync"], check=True, capture_output=True)
    return time.perf_counter() - start


def run_bench(folder, kind):
    """Bytes a second of `penstock bench`, sequential and direct."""
    case = f"{kind}:sequential:direct:4MiB:8"
    command = [PENSTOCK, "bench", folder, "--case", case, "--size", "2GiB", "--json"]
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
    results = json.loads(done.stdout)["results"]
    new = [one for one in results if one["new_file"] == (kind == "write")]
    return (new or results)[0]["throughput_bytes_per_second"]


def candidates(folder):
    asynchronous = [Dcp(folder, "thread"), Dcp(folder, "process")]
    return [Ours(folder), TorchSave(folder), Safetensors(folder), *asynchronous]


def measure_saves(folder, state, rounds, with_disk):
    """{name: [(stall, durable), ...]}, and what the machine itself does, in the same rounds."""
    total = sum(t.numel() * t.element_size() for t in state.values())
    memcpy = Memcpy(state)
    saved = {}
    ones = candidates(folder)
    memcpy.run()
    ones[0].save(state)  # Its arena is made.
    for round_ in range(rounds):
        print(f"  save {round_ + 1} of {rounds}", file=sys.stderr, flush=True)
        saved.setdefault("memcpy", []).append((memcpy.run(), 0))
        for one in ones:
            saved.setdefault(one.name, []).append(one.save(state))
        if with_disk:
            saved.setdefault("dd", []).append((0, run_dd(folder, total)))
            rate = run_bench(folder, "write")
            saved.setdefault("penstock bench", []).append((0, total / rate))
    return saved, ones


def measure_loads(folder, ones, total, rounds):
    """Cold, whole: {name: [seconds, ...]}."""
    import torch

    loaded = {}
    for round_ in range(rounds):
        print(f"  load {round_ + 1} of {rounds}", file=sys.stderr, flush=True)
        for one in ones:
            measure.drop_page_cache(folder)
            start = time.perf_counter()
            state = one.load()
            # safetensors maps: what nobody touched was not loaded.
            for tensor in state.values():
                tensor.view(torch.uint8)[::4096].sum()
            loaded.setdefault(one.name, []).append(time.perf_counter() - start)
            del state
        loaded.setdefault("penstock bench", []).append(total / run_bench(folder, "read"))
    return loaded


class Training:
    """Steps of a loop that only computes, on one core."""

    def __init__(self):
        import torch

        torch.set_num_threads(1)
        self.a = torch.randn(384, 384)

    def rate(self, done):
        """Steps a second until `done()`, and at least for a while."""
        start, steps = time.perf_counter(), 0
        while True:
            self.a @ self.a
            steps += 1
            if steps % 4 == 0 and done():
                return steps / (time.perf_counter() - start)

    def rate_alone(self, seconds=1.0):
        end = time.perf_counter() + seconds
        return self.rate(lambda: time.perf_counter() >= end)


def measure_drag(ones, state, rounds):
    """{name: [share of the loop's speed that is lost while one is written, ...]}"""
    training, lost = Training(), {}
    for round_ in range(rounds):
        print(f"  drag {round_ + 1} of {rounds}", file=sys.stderr, flush=True)
        for one in ones:
            before = training.rate_alone()
            during = training.rate(one.begin(state))
            usual = (before + training.rate_alone()) / 2
            lost.setdefault(one.name, []).append(1 - during / usual)
    return lost


def row_at_most(name, ours, theirs, most, unit):
    passed = ours <= most
    facts = {"ours": ours, "theirs": theirs, "unit": unit}
    return {"name": name, **facts, "at_most": most, "passed": passed}


def rows_of_drag(lost):
    percents = {name: stats.median(shares) * 100 for name, shares in lost.items()}
    ours = percents.pop("penstock")
    return [
        row_at_most(f"drag on a loop on the other core, beside {name}", ours, theirs, 5, "%")
        for name, theirs in percents.items()
    ]


def row(name, ours, theirs, bar, unit="s"):
    """How many times sooner we are; the bar is a least."""
    ratio = stats.ratio(theirs, ours)
    middle = {"ours": stats.median(ours), "theirs": stats.median(theirs), "unit": unit}
    return {"name": name, **middle, "ratio": ratio, "bar": bar, "passed": ratio["median"] >= bar}


def column(saved, name, index):
    return [one[index] for one in saved[name]]


def rows_of_saves(saved):
    ours = [column(saved, "penstock", i) for i in (0, 1)]
    rows = [row("stall, beside a bare memcpy", ours[0], column(saved, "memcpy", 0), 1 / 1.15)]
    rows.append(
        row("durable, beside penstock bench", ours[1], column(saved, "penstock bench", 1), 0.9)
    )
    rows.append(row("durable, beside dd", ours[1], column(saved, "dd", 1), 1))
    for name in saved:
        if name in ("penstock", "memcpy", "dd", "penstock bench"):
            continue
        bars = (5, 1.5) if name == "torch.save" else (1, 1)
        rows.append(row(f"stall, beside {name}", ours[0], column(saved, name, 0), bars[0]))
        rows.append(row(f"durable, beside {name}", ours[1], column(saved, name, 1), bars[1]))
    return rows


def rows_of_loads(loaded):
    rows = []
    for name, times in loaded.items():
        if name != "penstock":
            bar = 0.9 if name == "penstock bench" else 1.5
            rows.append(
                row(f"load, cold and verified, beside {name}", loaded["penstock"], times, bar)
            )
    return rows


def rows_of_small(folder, rounds):
    """20,000 tensors: what each costs in save(), and beside the same bytes in 400."""
    count, total = STATES["small"]
    states = [make_state(count, total), make_state(400, total)]
    memcpy = Memcpy(states[0])
    memcpy.run()
    ones = []
    for i, state in enumerate(states):
        (folder / str(i)).mkdir()
        ones.append(Ours(folder / str(i)))
        ones[-1].save(state)
    times = [[], []]
    bare = []
    for _ in range(rounds):
        bare.append(memcpy.run())
        for i, state in enumerate(states):
            times[i].append(ones[i].save(state))
    for one in ones:
        one.close()
    above = [(stall - least) / count * 1e6 for (stall, _), least in zip(times[0], bare)]
    each = stats.median(above)
    rows = [
        row(
            "20,000 tensors, durable, beside the same bytes in 400",
            [t for _, t in times[0]],
            [t for _, t in times[1]],
            1 / 1.3,
        )
    ]
    rows.append(row_at_most("20,000 tensors: stall above a memcpy, each", each, 5, 5, "µs"))
    return rows


def main(rounds=15):
    count, total = STATES["large"]
    with measure.scratch("checkpoint", 16 << 30) as folder:
        state = make_state(count, total)
        saved, ones = measure_saves(folder, state, rounds, True)
        lost = measure_drag(ones, state, min(LOADS, rounds))
        del state
        loaded = measure_loads(folder, ones, total, min(LOADS, rounds))
        for one in ones:
            one.close()
        shutil.rmtree(folder)
        folder.mkdir()
        rows = rows_of_saves(saved) + rows_of_drag(lost) + rows_of_loads(loaded)
        return rows + rows_of_small(folder, rounds)
