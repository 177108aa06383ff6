"""Charts of memory: round figures along an axis, lines, and areas between them.

A chart is drawn in a box of WIDTH by HEIGHT, which the page stretches; its foot is at no bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")

WIDTH, HEIGHT = 1000, 240
_STEPS = 4
# By how many times a limit may exceed the most and still be in sight: further up, it would press the rest down.
_IN_SIGHT = 1.6
_UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}


class Tick(NamedTuple):
    """A label, and where it stands in percent of the chart's width or height."""

    percent: float
    label: str


def bytes_ticks(most: int, limit: int, in_sight: float = _IN_SIGHT) -> tuple[list[Tick], float]:
    """Round sizes from 0 up, and the bytes at the top of the chart; the limit is in sight where memory comes near."""
    highest = highest_in_sight(most, limit, in_sight)
    unit = next((name for name, size in _UNITS.items() if highest >= size), "KiB")
    units = highest / _UNITS[unit]
    # 1, 2, 2.5 or 5 of a power of ten: some four of them come up to the highest.
    power = 10 ** math.floor(math.log10(units / _STEPS))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= units / _STEPS * 0.999)
    top = max(step * math.ceil(units / step - 0.02), units * 1.03)
    values = itertools.takewhile(lambda value: value <= top * 1.001, (step * number for number in itertools.count()))
    ticks = [Tick(100 * (1 - value / top), f"{value:.4g} {unit}" if value else "0") for value in values]
    return ticks, top * _UNITS[unit]


def highest_in_sight(most: int, limit: int, in_sight: float = _IN_SIGHT) -> int:
    """The limit, where what is drawn comes near it or exceeds it; else the most that is drawn."""
    return max(most, limit) if limit <= in_sight * most else most


def thinned(points: Sequence[_T], most: int, merged: Callable[[Sequence[_T]], _T]) -> list[_T]:
    """At most so many points; each is what `merged` makes of those in whose place it stands."""
    size = max(1, math.ceil(len(points) / most))
    return [merged(points[start : start + size]) for start in range(0, len(points), size)]


def line(sizes: Sequence[int], top: float) -> str:
    """The path of an SVG through two points or more, from the left edge to the right one."""
    last = len(sizes) - 1
    return "M" + "L".join(f"{WIDTH * n / last:.4g} {HEIGHT * (1 - size / top):.4g}" for n, size in enumerate(sizes))


def area(floor: Sequence[int], ceiling: Sequence[int], top: float) -> str:
    """The path of an SVG along the ceiling from left to right, and back along the floor; each point is a step of the
    same width."""
    count = len(floor)

    def x(number: int) -> str:
        return f"{WIDTH * number / count:.5g}"

    def y(size: int) -> str:
        return f"{HEIGHT * (1 - size / top):.5g}"

    there = [f"M0 {y(ceiling[0])}"]
    there += [f"H{x(n)}V{y(ceiling[n])}" for n in range(1, count) if ceiling[n] != ceiling[n - 1]]
    back = [f"H{WIDTH}V{y(floor[-1])}"]
    back += [f"H{x(n)}V{y(floor[n - 1])}" for n in range(count - 1, 0, -1) if floor[n] != floor[n - 1]]
    return "".join([*there, *back, "H0z"])


def limit_y(limit: int, top: float) -> float | None:
    """How far below the top a limit lies; None: there is none, or it is out of sight."""
    return round(HEIGHT * (1 - limit / top), 1) if 0 < limit <= top else None
