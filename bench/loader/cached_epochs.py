"""Two epochs from S3 through a disk cache that is empty at first: cached_epochs.py WORK-AS-JSON"""

import json
import sys
import time

import penstock


def epoch(loader):
    samples = 0
    start = time.perf_counter()
    for batch in loader:
        samples += int(batch["__mask__"].sum())
    return {"samples": samples, "seconds": time.perf_counter() - start}


def main():
    work = json.loads(sys.argv[1])
    loader = penstock.Loader(
        work["source"],
        {"data": penstock.Bytes(work["field"])},
        batch_size=work["batch_size"],
        last="pad",
        **work["options"],
    )
    answer = {}
    if work.get("open"):  # Only so that there is an index.
        print("{}")
        return
    for name in ("first", "second"):
        answer[name] = epoch(loader)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
