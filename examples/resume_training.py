"""Trains from shards with checkpoints, and goes on where a killed run stopped: model, optimizer,
random numbers and the loader's place in the epoch.

    python examples/resume_training.py SHARDS_DIR RUN_DIR --classes 3
    python examples/resume_training.py SHARDS_DIR RUN_DIR --classes 3 --prove

--prove trains twice: once in peace, and once killed with SIGKILL again and again. The losses of
both, step by step, are the same to the last bit.
"""

import argparse
import pathlib
import random
import subprocess
import sys
import time

import penstock
import torch
from train_images import make_loader, make_model, train_step

BARS = "▁▂▃▄▅▆▇█"


def batches_for_ever(loader):
    while True:
        yield from loader


def train(options):
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    loader = make_loader(options)
    model = make_model(options.classes)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    run = pathlib.Path(options.run)
    run.mkdir(parents=True, exist_ok=True)
    step = 0
    with penstock.Checkpointer(run, keep_last=2) as ckpt, open(run / "losses", "a") as losses:
        if ckpt.steps():
            state = ckpt.load()
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            loader.load_state_dict(state["loader"])
            torch.set_rng_state(state["rng"])
            step = state["step"]
            print(f"  goes on after step {step}", flush=True)
        for batch in batches_for_ever(loader):
            if step == options.steps:
                break
            images, labels = batch.to("cpu")
            loss, _ = train_step(model, optimizer, images, labels)
            step += 1
            losses.write(f"{step} {loss.hex()}\n")
            losses.flush()
            ckpt.step_done()
            if step % options.every == 0:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "loader": loader.state_dict(),
                    "rng": torch.get_rng_state(),
                    "step": step,
                }
                ckpt.save(step, state)


def read_losses(run):
    """{step: loss}; a step that was done again must have come out the same."""
    losses = {}
    path = pathlib.Path(run) / "losses"
    for line in path.read_text().splitlines() if path.exists() else []:
        step, _, loss = line.partition(" ")
        try:
            value = float.fromhex(loss)
        except ValueError:
            continue  # The line that the kill cut.
        if losses.setdefault(int(step), value) != value:
            sys.exit(f"step {step} came out as {losses[int(step)]}, and then as {value}")
    return losses


def curve(losses, width=60):
    values = [losses[step] for step in sorted(losses)]
    points = [values[i * len(values) // width] for i in range(min(width, len(values)))]
    low, high = min(points), max(points)
    scale = (len(BARS) - 1) / (high - low or 1)
    return "".join(BARS[round((point - low) * scale)] for point in points)


def start(options, run):
    command = [
        sys.executable,
        __file__,
        options.shards,
        str(run),
        "--classes",
        str(options.classes),
    ]
    command += ["--steps", str(options.steps), "--every", str(options.every)]
    return subprocess.Popen(command)


def prove(options):
    root = pathlib.Path(options.run)
    print("In peace:", flush=True)
    if start(options, root / "whole").wait() != 0:
        sys.exit("the training did not run")
    whole = read_losses(root / "whole")
    print("With kill -9 at random moments:", flush=True)
    kills = 0
    while len(done := read_losses(root / "killed")) < options.steps:
        process = start(options, root / "killed")
        goal = len(done) + random.randint(options.every, options.every * 4)
        while process.poll() is None and kills < 4:
            if len(read_losses(root / "killed")) >= goal:
                process.kill()
                print(f"  killed in step {max(read_losses(root / 'killed')) + 1}", flush=True)
                kills += 1
                break
            time.sleep(0.02)
        process.wait()
    print(f"losses, in peace:      {curve(whole)}")
    print(f"losses, {kills} times killed: {curve(done)}")
    if done != whole:
        sys.exit("the losses differ")
    print(f"All {len(whole)} losses are the same, to the last bit.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("shards", help="a folder of shards, a pattern, or s3://…")
    parser.add_argument("run", help="the directory of the run's checkpoints")
    parser.add_argument("--classes", type=int, required=True)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--prove", action="store_true")
    options = parser.parse_args()
    prove(options) if options.prove else train(options)


if __name__ == "__main__":
    main()
