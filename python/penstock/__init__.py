"""Penstock: datasets to the GPU, checkpoints back.

>>> import penstock
>>> fields = {"image": penstock.Image("jpg"), "label": penstock.Int("cls")}
>>> loader = penstock.Loader("train-*.tar", fields)
>>> for batch in loader: ...
"""

from ._errors import (
    AccessError,
    ChangedError,
    CorruptError,
    ExistsError,
    InvalidError,
    NotFoundError,
    PenstockError,
    TimedOutError,
    UnsupportedError,
)
from ._loading import PoisonedError
from ._native import metrics
from .checkpoint import Checkpointer, SaveHandle, Tier, load
from .dataset import Dataset
from .explain import Explanation, explain
from .fields import Array, Bytes, Field, Float, Image, Int, Json, Text
from .loader import Loader
from .mapping import per_sample
from .ragged import Ragged
from .report import Report
from .tokens import Tokens

__all__ = [
    "AccessError",
    "Array",
    "Bytes",
    "ChangedError",
    "Checkpointer",
    "CorruptError",
    "Dataset",
    "ExistsError",
    "Explanation",
    "Field",
    "Float",
    "Image",
    "Int",
    "InvalidError",
    "Json",
    "Loader",
    "NotFoundError",
    "PenstockError",
    "PoisonedError",
    "Ragged",
    "Report",
    "SaveHandle",
    "Text",
    "Tier",
    "TimedOutError",
    "Tokens",
    "UnsupportedError",
    "explain",
    "load",
    "metrics",
    "per_sample",
]
