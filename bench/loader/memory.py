"""Resident memory after each epoch: memory.py MODULE:CLASS WORK-AS-JSON"""

import importlib
import json
import sys


def status(name):
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1]) << 10
    raise RuntimeError(f"/proc/self/status has no {name}")


def main():
    module, name = sys.argv[1].split(":")
    work = json.loads(sys.argv[2])
    candidate = getattr(importlib.import_module(module), name)(work)
    after = []
    for _ in range(work["epochs"]):
        for batch in candidate.epoch():
            candidate.count(batch)
            del batch
        after.append(status("VmRSS"))
    print(json.dumps({"after": after, "peak": status("VmHWM")}))


if __name__ == "__main__":
    main()
