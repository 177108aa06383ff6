"""Whether figures rise, how fast, and how sure that is."""

from __future__ import annotations

import math
import statistics

# The medians of all pairs of so many points tell as much as those of more.
_MOST_POINTS = 300


def slope(points: list[tuple[float, float]]) -> float:
    """Theil-Sen: the median of the slopes between all pairs, which a few outliers do not move; 0 if there are none."""
    points = _thinned(points)
    slopes = [
        (second[1] - first[1]) / (second[0] - first[0])
        for number, first in enumerate(points)
        for second in points[number + 1 :]
        if second[0] != first[0]
    ]
    return statistics.median(slopes) if slopes else 0.0


def rising_confidence(values: list[float]) -> float:
    """Mann-Kendall: how sure it is, from 0 to 1, that the values rise with their order."""
    values = [value for _, value in _thinned(list(enumerate(values)))]
    count = len(values)
    if count < 3:
        return 0.0
    score = sum(
        (later > earlier) - (later < earlier) for number, earlier in enumerate(values) for later in values[number + 1 :]
    )
    ties = sum(n * (n - 1) * (2 * n + 5) for n in (values.count(value) for value in set(values)) if n > 1)
    variance = (count * (count - 1) * (2 * count + 5) - ties) / 18
    if score <= 0 or variance <= 0:
        return 0.0
    return math.erf((score - 1) / math.sqrt(2 * variance))


def _thinned(points: list) -> list:
    return points[:: math.ceil(len(points) / _MOST_POINTS)] if points else points
