"""`map=` for one sample at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np


def per_sample(function: Callable[[dict], Mapping]) -> Callable[[dict], dict]:
    """Makes a function of one sample into a `map=` of the batch.

    >>> def tokens(sample):
    ...     return {"tokens": tokenize(sample["text"]), "label": sample["label"]}
    >>> penstock.Loader(..., map=penstock.per_sample(tokens))

    `function` gets a dict with the sample's fields and gives one. Numbers and arrays of one shape
    become an array again, everything else a list. It is not called for padding and for samples that
    were skipped: theirs are zeros, or None in lists. It runs in Python, one sample after the other:
    report() says what it costs.
    """

    def mapped(batch: dict) -> dict:
        mask = batch["__mask__"]
        names = [name for name in batch if name != "__mask__"]
        made = [
            function({name: batch[name][i] for name in names}) if mask[i] else None
            for i in range(len(mask))
        ]
        for one in made:
            if one is not None and not isinstance(one, Mapping):
                raise TypeError(f"map= gave {type(one).__name__}: it must give a dict of fields")
        return {**_collate(made), "__mask__": mask}

    return mapped


def _collate(samples: Sequence[Mapping | None]) -> dict:
    first = next((one for one in samples if one is not None), None)
    if first is None:
        return {}
    return {
        name: _column([None if one is None else one[name] for one in samples]) for name in first
    }


def _column(values: list):
    present = [np.asarray(value) for value in values if _is_dense(value)]
    if len(present) != sum(value is not None for value in values):
        return values
    if any(one.shape != present[0].shape or one.dtype != present[0].dtype for one in present):
        return values
    column = np.zeros((len(values), *present[0].shape), present[0].dtype)
    for i, value in enumerate(values):
        if value is not None:
            column[i] = value
    return column


def _is_dense(value) -> bool:
    return isinstance(value, (np.ndarray, np.generic, bool, int, float))
