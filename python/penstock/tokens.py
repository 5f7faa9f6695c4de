"""Token corpora: Megatron's .bin and .idx."""

from __future__ import annotations

from dataclasses import dataclass

from .fields import Field
from .loader import Loader


@dataclass
class _Tokens(Field):
    seq_length: int
    dtype: str
    ext = "tokens"
    kind = "tokens"

    def _native(self, name):
        made = super()._native(name)
        made.shape = [self.seq_length + 1]
        made.dtype = self.dtype
        return made


class Tokens(Loader):
    """GPT samples over PREFIX.bin and PREFIX.idx, as Megatron writes them.

    >>> for batch in penstock.Tokens("corpus.idx", seq_length=4096, batch_size=8):
    ...     batch["tokens"], batch["labels"]      # int64, 8 x 4096; labels come next

    The documents are taken one after the other and cut every `seq_length` tokens; which sample
    comes when is shuffled (shuffle="global"), the documents are not: shuffle those once, with
    `penstock pack tokens --shuffle`. Everything else is as for penstock.Loader: seed,
    rank, world_size, last, state_dict(), report().
    """

    def __init__(
        self,
        source,
        *,
        seq_length: int,
        batch_size: int = 8,
        shuffle="global",
        dtype: str = "int64",
        **options,
    ):
        self._seq_length = seq_length
        fields = {"text": _Tokens(seq_length, dtype)}
        super().__init__(source, fields, batch_size=batch_size, shuffle=shuffle, **options)

    def _deliver(self, batch) -> dict:
        made = super()._deliver(batch)
        text = made.pop("text")
        return {"tokens": text[:, :-1], "labels": text[:, 1:], **made}
