"""Why does my own DataLoader starve the GPU?

Three times are taken: of the loader alone, of the step alone on a batch that is there already, and
of both together. What they say about each other says where to look.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


@dataclass
class Explanation:
    """What was measured (seconds per batch), what it means, and what to change. print() it."""

    isolated: float
    step: float | None = None
    together: float | None = None
    single_process: float | None = None
    first_batch: float = 0.0
    limit: str = "unknown"
    verdict: str = ""
    advice: list[str] = field(default_factory=list)

    @property
    def idle(self) -> float | None:
        """Which part of a step the GPU waited for data."""
        if not self.together or self.step is None:
            return None
        return max(0.0, 1 - self.step / self.together)

    def __str__(self) -> str:
        def ms(seconds):
            return f"{seconds * 1e3:.3g} ms"

        alone, first = ms(self.isolated), ms(self.first_batch)
        lines = [f"the loader alone    {alone} a batch (first one {first})"]
        if self.single_process is not None:
            lines.append(f"  in this process   {ms(self.single_process)} a batch (num_workers=0)")
        if self.step is not None:
            lines.append(f"the step alone      {ms(self.step)} on a batch that was there")
        if self.together is not None:
            lines.append(f"both                {ms(self.together)}; idle {self.idle:.0%}")
        lines.append(f"=> {self.verdict}")
        return "\n".join(lines + [f"   - {one}" for one in self.advice])


def _synchronise() -> None:
    """The GPU works on after a call returned: a time is only one when it has finished."""
    try:
        import torch
    except ImportError:
        return
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _time_loader(loader: Iterable, batches: int) -> tuple[float, float, object]:
    """(seconds a batch after the first, of the first, a batch)."""
    began = time.perf_counter()
    iterator = iter(loader)
    batch = next(iterator, None)
    if batch is None:
        raise ValueError("the loader has no batches")
    first = time.perf_counter() - began
    began = time.perf_counter()
    count = 0
    for batch in itertools.islice(iterator, batches):  # noqa: B007
        count += 1
    return ((time.perf_counter() - began) / count if count else first), first, batch


def _time_step(step: Callable, batch, count: int) -> float:
    step(batch)  # Warms up: compilation, memory.
    _synchronise()
    began = time.perf_counter()
    for _ in range(count):
        step(batch)
    _synchronise()
    return (time.perf_counter() - began) / count


def _time_together(loader: Iterable, step: Callable, batches: int) -> float:
    iterator = iter(loader)
    first = next(iterator)
    step(first)
    _synchronise()
    began = time.perf_counter()
    count = 0
    for batch in itertools.islice(iterator, batches):
        step(batch)
        count += 1
    _synchronise()
    return (time.perf_counter() - began) / max(1, count)


def _in_this_process(loader, batches: int) -> float | None:
    """The same torch DataLoader without worker processes."""
    workers = getattr(loader, "num_workers", 0)
    if not workers or getattr(loader, "batch_sampler", None) is None:
        return None
    import torch

    alone = torch.utils.data.DataLoader(
        loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn
    )
    return _time_loader(alone, batches)[0]


def _advice_for_torch(loader) -> list[str]:
    """Settings of a torch DataLoader that are known to cost."""
    if not hasattr(loader, "num_workers"):
        return []
    cores = len(os.sched_getaffinity(0))
    good = max(4, cores // 2)
    advice = []
    if loader.num_workers < good and cores > loader.num_workers:
        advice.append(f"num_workers={min(good, cores)} (now {loader.num_workers}, {cores} cores)")
    if not getattr(loader, "pin_memory", False):
        advice.append("pin_memory=True, and .to('cuda', non_blocking=True)")
    if loader.num_workers and not getattr(loader, "persistent_workers", False):
        advice.append("persistent_workers=True: workers are started anew in every epoch now")
    prefetch = getattr(loader, "prefetch_factor", None)
    if loader.num_workers and prefetch is not None and prefetch < 2:
        advice.append("prefetch_factor=2 to 4")
    if not getattr(loader, "drop_last", False):
        advice.append("drop_last=True, or the last batch makes graphs and kernels anew")
    return advice


def explain(
    loader: Iterable, step: Callable | None = None, *, batches: int = 100, steps: int = 10
) -> Explanation:
    """Times `loader` alone, `step` alone and both, and says which one is the limit.

    >>> print(penstock.explain(my_torch_dataloader, step=train_step))

    `step` takes a batch. Nothing is changed; batches are taken from the loader and, with `step`,
    trained on.
    """
    isolated, first, batch = _time_loader(loader, batches)
    made = Explanation(isolated=isolated, first_batch=first)
    made.single_process = _in_this_process(loader, max(3, batches // 10))
    if step is not None:
        made.step = _time_step(step, batch, steps)
        made.together = _time_together(loader, step, batches)
    _judge(made, loader)
    return made


def _judge(made: Explanation, loader) -> None:
    if made.step is None:
        made.limit = "unknown"
        made.verdict = (
            f"the loader gives {1 / made.isolated:.3g} batches a second; say step= to see whether "
            "that is enough"
        )
        return
    if made.isolated > made.step * 1.05:
        made.limit = "loader"
        made.verdict = (
            f"loader-bound: a batch takes {made.isolated / made.step:.2g} times as long to load as "
            "to train on"
        )
        made.advice = _advice_for_torch(loader) + [
            "many small files: shards (penstock pack images) end open and stat storms",
            "penstock.torch.Loader over the same data",
        ]
    elif made.idle is not None and made.idle > 0.1:
        made.limit = "copy"
        made.verdict = (
            f"the loader alone is fast enough, and the step waits {made.idle:.0%} of the time all "
            "the same: the copy to the device, or both want the same cores"
        )
        made.advice = [
            "pinned memory and .to('cuda', non_blocking=True), a batch ahead",
            "fewer workers or threads, where the step needs the CPU too",
        ]
    else:
        made.limit = "step"
        made.verdict = "the step is the limit: data comes in time, leave the loader as it is"
