"""On a machine with a GPU: what saving 8 GiB of CUDA tensors costs.

Compares the stall of `save()` with a bare copy to pinned memory, its time until durable with what
the disk takes, and both with torch.save and DCP's async_save; checks that what is loaded is what
was saved, also with an arena smaller than the state, and while training changes the tensors.

    PYTHONPATH=build/release/python python bench/gpu_checkpoint.py [DIRECTORY] [GIB]
"""

import concurrent.futures
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

import penstock
import torch

COUNT, ROUNDS = 400, 5


def make_state(total):
    each = total // COUNT // 2
    return {
        f"layers.{i}": torch.full((each,), float(i % 200), dtype=torch.bfloat16, device="cuda")
        for i in range(COUNT)
    }


def bare_copy(state, host):
    """Device to pinned host memory, tensor after tensor, waited for once."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for tensor, into in zip(state.values(), host):
        into.copy_(tensor, non_blocking=True)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def sync_all(folder):
    for name in os.listdir(folder):
        fd = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


BLOCK = 4 << 20


def disk_write(folder, host):
    """Seconds for each byte that a bare loop takes: direct writes of 4 MiB by sixteen threads, then
    fsync. From as much memory as ours: a virtual disk is faster with what is in a cache."""
    views = [tensor.view(torch.uint8).numpy() for tensor in host]
    blocks = [
        view[at : at + BLOCK] for view in views for at in range(0, len(view) - BLOCK + 1, BLOCK)
    ]
    total = len(blocks) * BLOCK
    fd = os.open(os.path.join(folder, "bare"), os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    os.posix_fallocate(fd, 0, total)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        start = time.perf_counter()
        list(pool.map(lambda i: os.pwrite(fd, blocks[i], i * BLOCK), range(len(blocks))))
        os.fsync(fd)
        took = time.perf_counter() - start
    os.close(fd)
    os.unlink(os.path.join(folder, "bare"))
    return took / total


def torch_save(folder, state):
    torch.cuda.synchronize()
    start = time.perf_counter()
    torch.save(state, os.path.join(folder, "state.pt"))
    sync_all(folder)
    took = time.perf_counter() - start
    shutil.rmtree(folder)
    return took, took


def dcp_async(folder, state):
    import torch.distributed.checkpoint as dcp

    torch.cuda.synchronize()
    start = time.perf_counter()
    future = dcp.async_save(state, checkpoint_id=folder)
    stall = time.perf_counter() - start
    getattr(future, "upload_completion", future).result()
    took = time.perf_counter() - start
    shutil.rmtree(folder)
    return stall, took


def check(folder, state, **options):
    """What is loaded is what the tensors were when save() was called."""
    expected = {name: tensor.cpu() for name, tensor in state.items()}
    with penstock.Checkpointer(folder, **options) as ckpt:
        handle = ckpt.save(1, state)
        for tensor in state.values():
            tensor.add_(1)
        handle.durable()
        loaded = ckpt.load()
        assert all(torch.equal(loaded[name], tensor) for name, tensor in expected.items())
        there = ckpt.load(device="cuda", only="layers.1*")
        assert all(torch.equal(tensor.cpu(), expected[name]) for name, tensor in there.items())
    shutil.rmtree(folder)


def main():
    root = tempfile.mkdtemp(dir=sys.argv[1] if len(sys.argv) > 1 else None)
    total = int(float(sys.argv[2]) * 2**30) if len(sys.argv) > 2 else 8 << 30
    torch.zeros(1, device="cuda")
    small = make_state(1 << 30)
    small["strided"] = torch.arange(12.0, device="cuda").reshape(3, 4).t()
    small["view"] = small["layers.0"][10:20]
    check(os.path.join(root, "a"), small)
    check(os.path.join(root, "b"), small, arena_bytes=64 << 20)
    print("what is loaded is what was saved", flush=True)
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{root}/meet", rank=0, world_size=1)
    state = make_state(total)
    host = [torch.empty_like(t, device="cpu", pin_memory=True) for t in state.values()]
    times = {}
    with penstock.Checkpointer(os.path.join(root, "run"), keep_last=1) as ckpt:
        for step in range(ROUNDS + 1):
            took = {"memory": (bare_copy(state, host), 0)}
            begun = time.perf_counter()
            handle = ckpt.save(step, state)
            stall = time.perf_counter() - begun
            handle.durable()
            took["penstock"] = (stall, time.perf_counter() - begun)
            handle.replicated()  # The one before is removed: or the others would share the disk.
            took["disk"] = (0, disk_write(root, host) * total)
            if step in (1, 2, 3):
                os.mkdir(os.path.join(root, "torch"))
                took["torch.save"] = torch_save(os.path.join(root, "torch"), state)
                took["dcp"] = dcp_async(os.path.join(root, "dcp"), state)
            print({name: [round(t, 3) for t in pair] for name, pair in took.items()}, flush=True)
            if step == 0:  # It makes the arena.
                continue
            for name, pair in took.items():
                times.setdefault(name, []).append(pair)
    shutil.rmtree(root)
    out = {
        name: {
            "stall_s": statistics.median(stall for stall, _ in pairs),
            "durable_s": statistics.median(durable for _, durable in pairs),
        }
        for name, pairs in times.items()
    }
    print(json.dumps(out, indent=2))
    stall = out["penstock"]["stall_s"] / out["memory"]["stall_s"]
    disk = out["disk"]["durable_s"] / out["penstock"]["durable_s"]
    print(f"stall: {stall:.2f} of a bare pinned copy (bar 1.15)")
    print(f"durable: {disk:.2f} of the disk's rate (bar 0.9)")


if __name__ == "__main__":
    main()
