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
    "Ragged",
    "Report",
    "Text",
    "TimedOutError",
    "Tokens",
    "UnsupportedError",
    "explain",
    "per_sample",
]
