"""Values of different lengths, without a copy."""

from __future__ import annotations

import numpy as np


class Ragged:
    """The bytes of one field of a batch: value i is `data[starts[i]:starts[i] + lengths[i]]`.

    What lies between values may be anything. `ragged[i]` is a view, `bytes(ragged[i])` a copy;
    `packed()` gives all values back to back, and where each begins.
    """

    __slots__ = ("data", "lengths", "starts")

    def __init__(self, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray):
        self.data = data
        self.starts = starts
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> np.ndarray:
        start = self.starts[index]
        return self.data[start : start + self.lengths[index]]

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def tolist(self) -> list[bytes]:
        """Each value as bytes."""
        return [value.tobytes() for value in self]

    def packed(self) -> tuple[np.ndarray, np.ndarray]:
        """(data, offsets): value i is data[offsets[i]:offsets[i + 1]]. A copy."""
        offsets = np.zeros(len(self) + 1, dtype=np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        data = np.empty(offsets[-1], dtype=np.uint8)
        for i, value in enumerate(self):
            data[offsets[i] : offsets[i + 1]] = value
        return data, offsets

    def __repr__(self) -> str:
        return f"Ragged({len(self)} values, {int(self.lengths.sum())} bytes)"
