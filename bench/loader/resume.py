"""How long until the first batch: resume.py FOLDER prepare|fresh|resume

`prepare` makes the index and goes through half of the epoch, to have a state to resume from. All
times are from the loader being made to its first batch.
"""

import json
import pathlib
import sys
import time

import penstock

BATCH = 256


def make(folder):
    fields = {"data": penstock.Bytes("tfrecord")}
    return penstock.Loader(
        f"{folder}/*.tfrecord", fields, batch_size=BATCH, shuffle="global", seed=1
    )


def first_batch(folder, state):
    start = time.perf_counter()
    loader = make(folder)
    if state is not None:
        loader.load_state_dict(state)
    batch = next(iter(loader))
    seconds = time.perf_counter() - start
    numbers = [int.from_bytes(value.tobytes(), "little") for value in batch["data"]]
    return {"seconds": seconds, "numbers": numbers, "samples": loader.samples}


def prepare(folder, saved):
    """Half of an epoch, and the batch that comes next, so that whoever resumes can be checked."""
    loader = make(folder)
    batches = iter(loader)
    for _ in range(len(loader) // 2):
        next(batches)
    state = loader.state_dict()
    batch = next(batches)
    numbers = [int.from_bytes(value.tobytes(), "little") for value in batch["data"]]
    saved.write_text(json.dumps({"state": state, "numbers": numbers}))
    return {"position": state["position"], "samples": loader.samples}


def main():
    folder, verb = sys.argv[1:]
    saved = pathlib.Path(f"{folder}-state.json")
    if verb == "prepare":
        print(json.dumps(prepare(folder, saved)))
        return
    known = json.loads(saved.read_text())
    answer = first_batch(folder, known["state"] if verb == "resume" else None)
    if verb == "resume" and answer["numbers"] != known["numbers"]:
        sys.exit("it resumed with other samples")
    del answer["numbers"]
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
