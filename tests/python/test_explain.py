"""Why a DataLoader starves a step: each verdict has its case."""

import time

import penstock
import torch


class Slow(torch.utils.data.Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 200

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return index


def wait(seconds):
    return lambda batch: time.sleep(seconds)


def test_a_slow_loader_is_the_limit():
    loader = torch.utils.data.DataLoader(Slow(0.002), batch_size=5)
    told = penstock.explain(loader, step=wait(0.002), batches=10, steps=3)
    assert told.limit == "loader" and told.isolated > 0.01
    assert "pin_memory" in str(told) and "penstock.torch.Loader" in str(told)


def test_a_slow_step_is_the_limit():
    loader = torch.utils.data.DataLoader(Slow(0), batch_size=5, num_workers=1)
    told = penstock.explain(loader, step=wait(0.1), batches=5, steps=3)
    assert told.limit == "step" and told.idle < 0.1 and "leave the loader" in told.verdict
    assert told.single_process is not None


def test_fast_alone_and_slow_together_is_something_between_them():
    # What is ready is fast; while a step runs, nothing is.
    def batches():
        for i in range(40):
            if steps and steps[-1] > time.perf_counter() - 0.01:
                time.sleep(0.02)
            yield i

    steps = []

    class Loader:
        def __iter__(self):
            return batches()

    def step(batch):
        time.sleep(0.02)
        steps.append(time.perf_counter())

    told = penstock.explain(Loader(), step=step, batches=10, steps=3)
    assert told.limit == "copy" and told.idle > 0.3


def test_without_a_step_it_only_measures():
    told = penstock.explain([1, 2, 3], batches=2)
    assert told.limit == "unknown" and "step=" in told.verdict
