"""States that are saved, loaded and compared; processes that save them."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import penstock
import torch
from conftest import BUILD

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(BUILD / "python")}


def start(script, directory):
    command = [sys.executable, "-c", textwrap.dedent(script), str(directory)]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)


def equal(a, b):
    if isinstance(a, torch.Tensor):
        same = type(b) is torch.Tensor and a.dtype == b.dtype and a.shape == b.shape
        raw = (
            [t.contiguous().reshape(-1).view(torch.uint8) for t in (a, b)] if a.numel() else [0, 0]
        )
        return (
            same
            and a.stride() == b.stride()
            and bool((raw[0] == raw[1]).all() if a.numel() else True)
        )
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        same = type(a) is type(b) and list(a) == list(b)
        return same and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float) and a != a:
        return b != b
    return type(a) is type(b) and a == b


def round_trip(state, directory):
    with penstock.Checkpointer(directory) as ckpt:
        ckpt.save(1, state)
    return penstock.Checkpointer(directory).load()
