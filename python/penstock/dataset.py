"""Samples by number."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Sequence

from . import _native
from .loader import Progress, _addresses


class Dataset:
    """The samples of a dataset, by number: each a dict of bytes by extension, with "__key__" and
    "__url__".

    >>> dataset = penstock.Dataset("train-{000000..000999}.tar")
    >>> len(dataset), dataset[17]["jpg"][:2]
    >>> dataset.get([5, 900, 31])         # all reads at once: much faster than one by one

    Of TFRecords a sample has "tfrecord", the bytes of the record, checked. May be shared by
    threads; after a fork, make another.
    """

    def __init__(
        self,
        source: str | os.PathLike | Sequence[str],
        *,
        format: str = "auto",
        cache_dir: str | Sequence[str] | None = None,
        cache_quota: str = "80%",
        index_dir: str = "",
        progress: bool = True,
    ):
        shown = Progress()
        try:
            self._dataset = _native.Dataset.open(
                _addresses(source),
                format,
                _addresses(cache_dir) if cache_dir else [],
                cache_quota,
                str(index_dir),
                shown if progress else None,
            )
        finally:
            shown.close()

    def __len__(self) -> int:
        return self._dataset.samples

    def __getitem__(self, index: int) -> dict:
        return self.get([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict]:
        """What torch's DataLoader asks for a whole batch with."""
        return self.get(indices)

    def __iter__(self) -> Iterator[dict]:
        size = len(self)
        for begin in range(0, size, 64):
            yield from self.get(range(begin, min(begin + 64, size)))

    def get(self, indices: Sequence[int]) -> list[dict]:
        """Several samples, in the order asked for, read all at once."""
        size = len(self)
        wanted = []
        for index in indices:
            number = operator.index(index)
            if not -size <= number < size:
                raise IndexError(f"sample {number} of {size}")
            wanted.append(number % size)
        return self._dataset.get(wanted)

    @property
    def classes(self) -> list[str]:
        """Of a class folder, in the order of their numbers ("cls" of a sample)."""
        return self._dataset.classes

    @property
    def shards(self) -> list[tuple[str, int]]:
        """(name, samples) of each shard."""
        return self._dataset.shards

    def __repr__(self) -> str:
        return f"penstock.Dataset({len(self)} samples in {len(self.shards)} shards)"
