"""By how much a series of figures rises, how sure that is, and whether blocks have become larger or more:
allocator/births/trend.h once more, in Python.

What judges figures of its own does so where no library may be: reports of TensorFlow, or of another machine. Tables of
cases (tests/allocator/trend_series.json and block_growth.json) hold the two together.
"""

from __future__ import annotations

import collections
import itertools
import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

# Above this a series rises. Of two sides: of the series that neither rise nor fall, 5 of 100 seem to rise with so much.
TREND_CONFIDENCE = 0.9

# The medians of all pairs of so many points tell as much as those of more.
_MOST_POINTS = 300


def median_slope(values: Sequence[float], steps: Sequence[float] | None = None) -> float:
    """Theil and Sen's: the median of the slopes between all pairs, which a few odd values do not move; 0 if there are
    none. `steps` says where the values were taken; without it they are one apart."""
    points = _thinned(list(zip(range(len(values)) if steps is None else steps, values, strict=True)))
    slopes = [
        (later - earlier) / (end - start)
        for (start, earlier), (end, later) in itertools.combinations(points, 2)
        if end != start
    ]
    return statistics.median(slopes) if slopes else 0.0


def rank_confidence(values: Sequence[float]) -> float:
    """Mann and Kendall's, of two sides and corrected for ties: how sure it is, from 0 to 1, that the values have a
    trend; 0 where that is not a rise."""
    values = _thinned(values)
    rises = sum((later > earlier) - (later < earlier) for earlier, later in itertools.combinations(values, 2))
    if rises <= 0:
        return 0.0
    variance = _variance(len(values)) - sum(_variance(count) for count in collections.Counter(values).values())
    return math.erf((rises - 1) / math.sqrt(2 * variance))


def _variance(count: int) -> float:
    return count * (count - 1) * (2 * count + 5) / 18


def _thinned(values: Sequence) -> Sequence:
    return values[:: math.ceil(len(values) / _MOST_POINTS)] if values else values


class Held(NamedTuple):
    """What is held, in so many blocks."""

    bytes: int
    blocks: int


def are_as_many(before: Held, after: Held) -> bool:
    """As many blocks as before, give or take one of ten."""
    return abs(after.blocks - before.blocks) * 10 <= max(before.blocks, 1)


def are_larger(before: Held, after: Held) -> bool:
    """The blocks have become larger, rather than a few more: most of the growth is in the size of the mean block."""
    return 2 * _growth(before.blocks, after.blocks) <= _growth(before.bytes, after.bytes)


def _growth(before: int, after: int) -> float:
    return after / max(before, 1) - 1
