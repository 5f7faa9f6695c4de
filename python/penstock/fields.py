"""What a batch is to have: each of these says which bytes of a sample, and what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import _native

IMAGE_EXTENSIONS = ("jpg", "jpeg", "png")
_KINDS = {
    "image": 0,
    "int": 1,
    "float": 2,
    "array": 3,
    "bytes": 4,
    "text": 5,
    "json": 6,
    "tokens": 7,
}
_CROPS = {None: 0, "none": 0, "center": 1, "random": 2}


def _extensions(ext: str | Sequence[str]) -> list[str]:
    """WebDataset writes alternatives as "jpg;png"; a list says the same."""
    parts = ext.split(";") if isinstance(ext, str) else list(ext)
    return [part.strip().lstrip(".") for part in parts if part.strip()]


class Field:
    """A column of a batch."""

    kind = "bytes"

    def _native(self, name: str) -> _native.Field:
        made = _native.Field()
        made.name = name
        made.kind = _KINDS[self.kind]
        made.source = _extensions(self.ext)
        return made


@dataclass
class Bytes(Field):
    """The bytes as they are: a `Ragged` of the batch.

    >>> penstock.Bytes("npy")
    """

    ext: str | Sequence[str]
    kind = "bytes"


@dataclass
class Text(Field):
    """UTF-8 text: a list of str; with `key` a text inside JSON.

    >>> penstock.Text("json", key="captions.0")
    """

    ext: str | Sequence[str]
    key: str = ""
    kind = "text"

    def _native(self, name):
        made = super()._native(name)
        made.path = self.key
        return made

    def _read(self, text):
        return value_at(json.loads(text), self.key) if self.key else text


def value_at(document, path):
    """What is at "a.b.0", or at the JSON pointer "/a/b/0"."""
    if path.startswith("/"):
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    else:
        parts = path.split(".")
    for part in parts:
        document = document[int(part) if isinstance(document, list) else part]
    return document


@dataclass
class Json(Field):
    """A JSON document: a list of what json.loads makes of it."""

    ext: str | Sequence[str] = "json"
    kind = "json"

    def _read(self, text):
        return json.loads(text)


class _Number(Field):
    """Written as text, or with `key` inside JSON."""

    def _native(self, name):
        made = super()._native(name)
        made.path = self.key
        made.dtype = self.dtype
        return made


@dataclass
class Int(_Number):
    """An integer written as text ("cls"), or with `key` inside JSON; the class of a class folder.

    >>> penstock.Int("json", key="label.id")
    """

    ext: str | Sequence[str] = "cls"
    key: str = ""
    dtype: str = "int64"
    kind = "int"


@dataclass
class Float(_Number):
    """A number written as text, or with `key` inside JSON."""

    ext: str | Sequence[str]
    key: str = ""
    dtype: str = "float32"
    kind = "float"


@dataclass
class Array(Field):
    """A .npy array of one shape and dtype, the same in every sample: a dense column.

    >>> penstock.Array("npy", shape=(768,), dtype="float32")
    """

    ext: str | Sequence[str]
    shape: Sequence[int]
    dtype: str = "float32"
    kind = "array"

    def _native(self, name):
        made = super()._native(name)
        made.shape = [int(side) for side in self.shape]
        made.dtype = self.dtype
        return made


@dataclass
class Image(Field):
    """A JPEG or PNG, decoded, cropped, resized and normalised.

    crop="random" is torchvision's RandomResizedCrop (`scale`, `ratio`), crop="center" its Resize
    (`resize`, by default 8/7 of size, as 256 is of 224) and CenterCrop, crop=None a Resize to
    `size` whatever the shape was. flip=True mirrors half of them. `mean` and `std` as in Normalize,
    of values from 0 to 1.

    >>> penstock.Image("jpg", size=224, crop="random", flip=True,
    ...                mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), dtype="float16")
    """

    ext: str | Sequence[str] = IMAGE_EXTENSIONS
    size: int | tuple[int, int] = 224
    crop: str | None = None
    resize: int | None = None
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool | float = False
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    dtype: str = "uint8"
    layout: str = "CHW"
    channels: int = 3
    fast_scale: bool = True
    kind: str = field(default="image", init=False, repr=False)

    def _native(self, name):
        made = super()._native(name)
        spec = _native.ImageSpec()
        height, width = (self.size, self.size) if isinstance(self.size, int) else self.size
        spec.height, spec.width = height, width
        if self.crop not in _CROPS:
            raise ValueError(f"crop={self.crop!r}: 'random', 'center' or None")
        spec.crop = _CROPS[self.crop]
        if self.crop == "center":
            spec.resize = self.resize or round(max(height, width) * 8 / 7)
        spec.scale, spec.ratio = list(self.scale), list(self.ratio)
        spec.flip = 0.5 if self.flip is True else float(self.flip)
        spec.brightness, spec.contrast = self.brightness, self.contrast
        spec.saturation = self.saturation
        spec.mean = None if self.mean is None else [float(x) for x in self.mean]
        spec.std = None if self.std is None else [float(x) for x in self.std]
        spec.dtype, spec.layout = self.dtype, self.layout
        spec.channels, spec.fast_scale = self.channels, self.fast_scale
        made.image = spec
        return made
