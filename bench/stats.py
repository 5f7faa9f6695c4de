"""Medians and intervals of interleaved measurements."""

import random
import statistics


def median(values):
    return statistics.median(values)


def interval(values, level=0.95, rounds=2000):
    """A bootstrap interval of the median, from the values themselves; the seed is fixed."""
    generator = random.Random(1)
    medians = sorted(
        statistics.median(generator.choices(values, k=len(values))) for _ in range(rounds)
    )
    tail = (1 - level) / 2
    return medians[int(tail * rounds)], medians[int((1 - tail) * rounds) - 1]


def ratio(ours, theirs):
    """The median of the pairs' ratios, with its interval: each pair ran back to back."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    low, high = interval(ratios)
    return {"median": median(ratios), "low": low, "high": high, "pairs": len(ratios)}
