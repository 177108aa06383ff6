"""How many windows of steps are measured in a given time, in which order, and what follows from them.

Windows come in rounds, one of each allocator's in a round, with the same steps. So a round's ratio leaves out what
changes from round to round: shapes, clocks, heat. Where their middle lies is told by the signed-rank test of Wilcoxon,
which takes no distribution for granted, and for which a window that somebody disturbed is one of many.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: With less time windows get shorter first and then fewer, and with more more.
ROUNDS, SECONDS = 12, 2.0
MOST_ROUNDS, _LEAST_SECONDS = 30, 0.25
#: The speed, as a part of another's, below which it is slower.
MARGIN = 0.99
#: How sure the interval of a median is.
_CONFIDENCE = 0.95
#: So far apart may consecutive windows be of what is warm.
_AGREEING, _CONSECUTIVE = 0.03, 3
FASTER, SLOWER, UNDECIDED = "as fast", "slower", "not decided"


def seconds_of_each(seconds: float, processes: int) -> float:
    """Of windows of which ROUNDS are to fit into the time, or as many as there is time for."""
    return min(SECONDS, max(_LEAST_SECONDS, seconds / (ROUNDS * processes)))


def share(seconds: float, weights: Sequence[float]) -> float:
    """Of the time that is left, what the first of those has that are still to come."""
    return max(0.0, seconds) * weights[0] / sum(weights)


def order(names: Sequence[str], number: int) -> list[str]:
    """Of a round: in four rounds each has each place, and in the next four another before it."""
    first = number % len(names)
    turned = [*names[first:], *names[:first]]
    return turned[::-1] if number // len(names) % 2 else turned


def is_warm(milliseconds: Sequence[float]) -> bool:
    """Whether the last windows agree."""
    last = milliseconds[-_CONSECUTIVE:]
    return len(last) == _CONSECUTIVE and max(last) <= min(last) * (1 + _AGREEING)


class Interval(NamedTuple):
    low: float
    median: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """In which the middle of the values lies, as sure as _CONFIDENCE; without an end where they are too few to say."""
    count, sums = len(values), [1]
    # In how many of the ways to choose from 1 to `count` what is chosen adds up to each sum.
    for rank in range(1, count + 1):
        sums = [with_it + without for with_it, without in zip([0] * rank + sums, sums + [0] * rank, strict=True)]
    middles = sorted((one + other) / 2 for one, other in itertools.combinations_with_replacement(values, 2))
    left_out, outside = 0, 2 * sums[0]
    while outside <= (1 - _CONFIDENCE) * 2**count:
        left_out += 1
        outside += 2 * sums[left_out]
    median = statistics.median(middles)
    return Interval(middles[left_out - 1], median, middles[-left_out]) if left_out else Interval(0.0, median, math.inf)


class Verdict(NamedTuple):
    said: str
    #: The speed as a part of the faster one's, and whose that is.
    ratio: Interval
    faster: str


def verdict(rounds: Sequence[Mapping[str, float]], whose: str, others: Sequence[str]) -> Verdict | None:
    """What the rounds say of a speed beside those of others; None where there is nothing to compare.

    It is slower if it is slower than one of them, and as fast if it is so as each.

    Args:
        rounds: the milliseconds of a step, of those who have a window in the round.
    """
    ratios = {}
    for other in others:
        if pairs := [found[other] / found[whose] for found in rounds if other in found and whose in found]:
            ratios[other] = interval(pairs)
    if not ratios:
        return None
    faster = min(ratios, key=lambda other: ratios[other].median)
    if any(found.high < MARGIN for found in ratios.values()):
        said = SLOWER
    elif all(found.low >= MARGIN for found in ratios.values()):
        said = FASTER
    else:
        said = UNDECIDED
    return Verdict(said, ratios[faster], faster)
