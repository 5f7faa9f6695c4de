"""One candidate in a process of its own: drive.py MODULE:CLASS WORK-AS-JSON

Runs an epoch to warm up, with `check` looking at what came; then whole epochs until `seconds` have
passed. Prints JSON: samples, seconds, and the digest of the check.
"""

import contextlib
import importlib
import json
import sys
import time
import zlib

import numpy as np


def digest(candidate):
    """Counts and sums that do not depend on the order."""
    found = {"samples": 0, "bytes": 0, "crc": 0}
    sums = {"labels": 0, "pixels": 0.0}
    is_images = False
    for batch in candidate.epoch():
        values = candidate.values(batch)
        if isinstance(values, tuple):
            is_images = True
            images, labels = values
            if images.dtype != np.float32 or images.shape[1:] != (3, 224, 224):
                raise RuntimeError(f"images are {images.dtype} of {images.shape}")
            found["samples"] += len(labels)
            sums["labels"] += int(sum(int(label) for label in labels))
            sums["pixels"] += float(images.mean(dtype=np.float64)) * len(labels)
            continue
        for value in values:
            view = memoryview(np.ascontiguousarray(value) if hasattr(value, "dtype") else value)
            found["samples"] += 1
            found["bytes"] += view.nbytes
            found["crc"] += zlib.crc32(view)
    if is_images:
        mean = sums["pixels"] / max(1, found["samples"])
        return {"samples": found["samples"], "labels": sums["labels"], "mean_pixel": mean}
    return found


def pass_over(candidate, limit):
    """(samples, seconds) of one epoch, or of its first `limit` seconds."""
    count, samples = candidate.count, 0
    start = time.perf_counter()
    with contextlib.closing(iter_of(candidate)) as batches:
        for batch in batches:
            samples += count(batch)
            del batch  # Its memory may be used again.
            if limit and time.perf_counter() - start > limit and not candidate.whole_epochs:
                break
        seconds = time.perf_counter() - start
    return samples, seconds


def iter_of(candidate):
    yield from candidate.epoch()


def measure(candidate, work):
    pass_over(candidate, work.get("warm_seconds")) if not work.get("check") else None
    samples = seconds = 0
    while seconds < work["seconds"]:
        more, taken = pass_over(candidate, work.get("limit_seconds"))
        samples += more
        seconds += taken
    return {"samples": samples, "seconds": seconds}


def main():
    module, name = sys.argv[1].split(":")
    work = json.loads(sys.argv[2])
    real, sys.stdout = sys.stdout, sys.stderr  # Libraries may print.
    candidate = getattr(importlib.import_module(module), name)(work)
    answer = {"digest": digest(candidate)} if work.get("check") else {}
    answer |= measure(candidate, work)
    if work.get("report") and hasattr(candidate, "report"):
        answer["report"] = candidate.report()
    print(json.dumps(answer), file=real, flush=True)


if __name__ == "__main__":
    main()
