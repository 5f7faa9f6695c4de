"""The loader: datasets to batches."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

from . import _native
from .fields import Field
from .ragged import Ragged
from .report import Report

_PAGE_CACHE = {"auto": 0, "buffered": 1, "uncached": 2, "direct": 3}


def _choice(name: str, value: str, among) -> str:
    if value not in among:
        raise ValueError(f"{name}={value!r}: one of {', '.join(map(repr, among))}")
    return value


def _addresses(source) -> list[str]:
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    return [os.fspath(one) for one in source]


def _size(value: int | str) -> str:
    return f"{value}B" if isinstance(value, int) else value


def _depth_outside() -> int:
    """The stacklevel of whoever called into this package, for warnings."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back and frame.f_globals["__name__"].split(".")[0] == "penstock":
        frame, depth = frame.f_back, depth + 1
    return depth


class Progress:
    """One line on a terminal while an index is made; nothing elsewhere."""

    def __init__(self):
        self.began = time.monotonic()
        self.shown = False

    def __call__(self, shards_done, shards, bytes_done, total):
        if not sys.stderr.isatty() or time.monotonic() - self.began < 0.5 or not total:
            return
        self.shown = True
        share = bytes_done / total
        print(
            f"\rindexing: {shards_done} of {shards} shard{'s' * (shards != 1)}, {share:.0%} ",
            end="",
            file=sys.stderr,
        )

    def close(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class Loader:
    """Batches of a dataset: tar shards, TFRecords, class folders or files, as they are.

    >>> loader = penstock.Loader(
    ...     "train-{000000..000999}.tar",
    ...     fields={"image": penstock.Image("jpg", size=224, crop="random", flip=True),
    ...             "label": penstock.Int("cls")},
    ...     batch_size=256, shuffle="global", seed=1)
    >>> for batch in loader:
    ...     batch["image"], batch["label"]

    `source` is a path, a glob, a brace list, a folder, an s3:// or pen:// address, a list of those,
    or a dict {source: weight}. A batch is a dict of numpy arrays (views of memory that goes back
    when the last of them is gone), of `Ragged` for Bytes, of lists for Text and Json; and
    "__mask__", which is False for padding and for samples that were skipped. One iteration is one
    epoch; the next one is shuffled anew. See docs/LOADER.md.
    """

    _seq_length = 0

    def __init__(
        self,
        source: str | os.PathLike | Sequence[str] | Mapping[str, float],
        fields: Mapping[str, Field],
        *,
        batch_size: int = 256,
        shuffle: str | bool = "none",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        last: str = "drop",
        streams: int = 720,
        window: int | str = "16MiB",
        epoch_samples: int = 0,
        memory: int | str = "2GiB",
        threads: int = 0,
        tune: bool = False,
        batches_ahead: int = 0,
        cache_dir: str | Sequence[str] | None = None,
        cache_quota: str = "80%",
        page_cache: str = "auto",
        on_error: str = "raise",
        format: str = "auto",
        index_dir: str = "",
        map: Callable[[dict], dict] | None = None,  # Of a batch; see per_sample.
        progress: bool = True,
    ):
        self._names = list(fields)
        self._fields = list(fields.values())
        for name, one in fields.items():
            if not isinstance(one, Field):
                raise TypeError(f"fields[{name!r}] is {one!r}: use penstock.Image, Int, Bytes, …")
        settings = _native.Settings()
        weights = source if isinstance(source, Mapping) else {None: 1.0}
        for address, weight in weights.items():
            addresses = _addresses(source if address is None else address)
            settings.add_source(addresses, float(weight), self._seq_length)
        for name, one in fields.items():
            settings.add_field(one._native(name))
        if isinstance(shuffle, bool):
            shuffle = "global" if shuffle else "none"
        _choice("on_error", on_error, ("raise", "skip"))
        _choice("page_cache", page_cache, tuple(_PAGE_CACHE))
        settings.set_sizes(batch_size, _size(memory), _size(window), threads, tune, batches_ahead)
        settings.set_order(shuffle, seed, rank, world_size, last, streams, epoch_samples)
        settings.set_reading(_PAGE_CACHE[page_cache], on_error == "skip", format, str(index_dir))
        if cache_dir:
            settings.set_cache(_addresses(cache_dir), cache_quota)
        self._delivered = False  # Anything, since it was opened or told where to go on.
        self._map = map
        self._map_seconds = 0.0
        self._steps = StepClock()
        shown = Progress()
        try:
            self._loader = _native.Loader.open(settings, shown if progress else None)
        finally:
            shown.close()
        self.batch_size = batch_size
        for warning in self._loader.warnings():
            warnings.warn(warning, stacklevel=_depth_outside())

    def __iter__(self) -> Iterator[dict]:
        # All batches of an epoch were taken, but not its end: that is not an epoch of its own.
        if self._delivered and self._loader.steps_left == 0:
            self._loader.next()
        while True:
            batch = self._loader.next()
            if batch is None:
                return
            self._delivered = True
            yield self._deliver(batch)

    def __len__(self) -> int:
        """Batches of a whole epoch, for this rank."""
        return self._loader.steps

    def _deliver(self, batch) -> dict:
        made = {name: self._column(batch, i) for i, name in enumerate(self._names)}
        made["__mask__"] = batch.mask()
        if self._map is None:
            return made
        began = time.perf_counter()
        made = self._map(made)
        self._map_seconds += time.perf_counter() - began
        return made

    def _column(self, batch, i):
        kind = self._fields[i].kind
        if kind not in ("bytes", "text", "json"):
            return batch.dense(i)
        values = Ragged(*batch.ragged(i))
        if kind == "bytes":
            return values
        mask, read = batch.mask(), self._fields[i]._read
        return [read(str(v.data, "utf-8")) if ok or len(v) else None for v, ok in zip(values, mask)]

    @property
    def samples(self) -> int:
        """Of all ranks, in an epoch."""
        return self._loader.samples

    @property
    def epoch(self) -> int:
        return self._loader.epoch

    def set_epoch(self, epoch: int) -> None:
        """Begins that epoch with the next iteration.

        Needed only to go back or to leave some out.
        """
        self._loader.set_epoch(epoch)

    @property
    def classes(self) -> list[str]:
        """Of a class folder, in the order of their numbers."""
        return self._loader.classes()

    def state_dict(self) -> dict:
        """Where this run stands: a few numbers, the same on every rank. See load_state_dict."""
        return json.loads(self._loader.state())

    def load_state_dict(self, state: Mapping) -> None:
        """Goes on from there; world_size, batch_size and threads may be others.

        No sample is lost or repeated.
        """
        self._loader.load_state(json.dumps(dict(state)))
        self._delivered = False

    def step(self):
        """`with loader.step():` around a training step: report() then knows the real idle time."""
        return self._steps

    def report(self) -> Report:
        """Where the time went since the start or reset_report(). print() it."""
        step = self._steps.busy / self._steps.count if self._steps.count else None
        numbers, text = self._loader.report(step, self.batch_size)
        numbers["map_busy"] = self._map_seconds
        numbers["step_busy"] = self._steps.busy
        numbers["steps_timed"] = self._steps.count
        return Report(numbers, text)

    def reset_report(self) -> None:
        self._loader.reset_report()
        self._map_seconds = 0.0
        self._steps = StepClock()

    def __getitem__(self, index):
        raise TypeError(
            "a penstock.Loader gives whole batches, by its own threads: iterate over it directly "
            "instead of handing it to torch's DataLoader. For samples by number there is "
            "penstock.Dataset."
        )

    def __reduce__(self):
        raise TypeError(
            "a penstock.Loader has threads and cannot be sent to another process: make one there. "
            "It needs no worker processes."
        )

    def __repr__(self) -> str:
        return f"penstock.Loader({self.samples} samples, {len(self)} batches of {self.batch_size})"


class StepClock:
    """Time spent in training steps."""

    def __init__(self):
        self.busy = 0.0
        self.count = 0

    def __enter__(self):
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.busy += time.perf_counter() - self._began
        self.count += 1
