"""On a machine with a GPU: is a batch's copy to it a real asynchronous copy?

Compares `batch.to("cuda")` of our loader's batches with a bare copy of pinned memory of the same
size, and with a pageable one; checks that the bytes arrive, and that the copy does not block.

    PYTHONPATH=build/release/python python bench/gpu_loader.py
"""

import json
import statistics
import tempfile
import time

import numpy as np
import penstock.torch
import torch

BATCH, SHAPE, BATCHES = 256, (3, 224, 224), 12


def write_arrays(folder: str) -> None:
    rng = np.random.default_rng(0)
    for i in range(BATCH * 2):
        np.save(f"{folder}/{i:05}.npy", rng.standard_normal(SHAPE, dtype=np.float32))


def seconds_of(copy) -> tuple[float, float]:
    """(until the call returned, until the copy was done)."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    copy()
    returned = time.perf_counter() - began
    torch.cuda.synchronize()
    return returned, time.perf_counter() - began


def rate_of(tensors, copy) -> dict:
    bytes_all = sum(tensor.nbytes for tensor in tensors)
    times = [seconds_of(lambda t=tensor: copy(t)) for tensor in tensors]
    return {
        "gb_per_second": statistics.median(
            tensor.nbytes / done / 1e9 for tensor, (_, done) in zip(tensors, times)
        ),
        "returned_after_share": statistics.median(call / done for call, done in times),
        "bytes": bytes_all,
    }


def main():
    torch.zeros(1, device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        write_arrays(folder)
        fields = {"x": penstock.Array("npy", shape=SHAPE, dtype="float32")}
        loader = penstock.torch.Loader(
            folder, fields, batch_size=BATCH, shuffle="none", memory="8GiB", format="files"
        )
        batches = []
        while len(batches) < BATCHES:
            batches.extend(list(loader)[: BATCHES - len(batches)])
        ours = [batch["x"] for batch in batches]
        assert all(tensor.is_pinned() for tensor in ours), "batches are not in pinned memory"
        for batch in batches[:2]:
            there = batch.to("cuda")["x"]
            torch.cuda.synchronize()
            assert torch.equal(there.cpu(), batch["x"]), "the bytes on the GPU are others"
        pinned = [torch.empty_like(tensor, pin_memory=True).copy_(tensor) for tensor in ours[:4]]
        pageable = [tensor.clone() for tensor in ours[:4]]
        out = {}
        for name, tensors in (("pinned", pinned), ("ours", ours), ("pageable", pageable)) * 3:
            out[name] = rate_of(tensors, lambda t: t.to("cuda", non_blocking=True))
        by_batch = [seconds_of(lambda b=batch: b.to("cuda"))[1] for batch in batches]
        out["batch.to"] = {"gb_per_second": ours[0].nbytes / statistics.median(by_batch) / 1e9}
    out["of_pinned"] = out["ours"]["gb_per_second"] / out["pinned"]["gb_per_second"]
    print(json.dumps(out, indent=2))
    verdict = "met" if out["of_pinned"] >= 0.9 else "missed"
    print(f"copies of batches: {out['of_pinned']:.2f} of bare pinned copies (bar 0.9: {verdict})")


if __name__ == "__main__":
    main()
