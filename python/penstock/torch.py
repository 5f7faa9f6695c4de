"""The loader for PyTorch: tensors, ranks from torch.distributed, copies to the GPU that overlap.

>>> fields = {"image": penstock.Image("jpg", size=224, dtype="float16"),
...           "label": penstock.Int("cls")}
>>> loader = penstock.torch.Loader("train-*.tar", fields, batch_size=256, shuffle="global")
>>> for images, labels in loader:
...     images = images.to("cuda", non_blocking=True)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
import torch

from .fields import Field, Image
from .loader import Loader as _Loader


def _ranks() -> tuple[int, int]:
    """(rank, world size) of torch.distributed, where that runs."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


class _Copies:
    """Batches whose memory a GPU still reads: kept until it has."""

    def __init__(self):
        self.under_way = deque()

    def keep(self, batch, device):
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(device))
        self.under_way.append((event, batch))
        self.forget_done()

    def forget_done(self):
        while self.under_way and self.under_way[0][0].query():
            self.under_way.popleft()


_copies = _Copies()


class Batch(tuple):
    """The fields of a batch, in order; also by name.

    `mask` is False for padding and for samples that were skipped.
    """

    names: tuple[str, ...]
    mask: torch.Tensor

    def __new__(cls, names, values, mask):
        made = super().__new__(cls, values)
        made.names = tuple(names)
        made.mask = mask
        return made

    def __getitem__(self, key):
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)

    def to(self, device, non_blocking: bool = True) -> Batch:
        """A copy on `device`.

        From pinned memory it overlaps with what the GPU does; this batch may be dropped.
        """
        device = torch.device(device)

        def move(value):
            return value.to(device, non_blocking=non_blocking) if torch.is_tensor(value) else value

        moved = Batch(self.names, [move(value) for value in self], move(self.mask))
        if device.type == "cuda" and non_blocking:
            _copies.keep(self, device)
        return moved


class Loader(_Loader):
    """penstock.Loader whose batches are tensors: `for images, labels in loader`.

    rank and world_size come from torch.distributed unless given. Tensors share memory with the
    batch, which is pinned where there is a GPU: `batch.to("cuda")`, or `.to("cuda",
    non_blocking=True)` of each tensor as long as the batch is kept until the copy is done (batch.to
    sees to that).
    """

    def __init__(
        self, source, fields: Mapping[str, Field], *, rank=None, world_size=None, **options
    ):
        own_rank, own_size = _ranks()
        options["rank"] = own_rank if rank is None else rank
        options["world_size"] = own_size if world_size is None else world_size
        super().__init__(source, fields, **options)

    def _deliver(self, batch) -> Batch:
        values = super()._deliver(batch)
        mask = torch.from_numpy(values.pop("__mask__"))
        return Batch(values, [self._tensor(name, value) for name, value in values.items()], mask)

    def _tensor(self, name, value):
        if not isinstance(value, np.ndarray):
            return value
        tensor = torch.from_numpy(value)
        field = self._fields[self._names.index(name)] if name in self._names else None
        if isinstance(field, Image) and field.dtype == "bfloat16":
            return tensor.view(torch.bfloat16)
        return tensor
