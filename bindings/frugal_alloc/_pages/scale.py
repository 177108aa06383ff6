"""Round figures along a chart's axis."""

from __future__ import annotations

import dataclasses
import itertools
import math

_STEPS = 4
# By how many times a limit may exceed the most and still be in sight: further up, it would press the rest down.
_IN_SIGHT = 1.6
_UNITS = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10}


@dataclasses.dataclass(frozen=True)
class Tick:
    """A label, and where it stands in percent of the chart's width or height."""

    percent: float
    label: str


def round_step(most: float) -> float:
    """1, 2, 2.5 or 5 of a power of ten: some four of them come up to the most."""
    rough = most / _STEPS
    power = 10 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)


def bytes_ticks(most: int, limit: int, in_sight: float = _IN_SIGHT) -> tuple[list[Tick], float]:
    """Round sizes from 0 up, and the bytes at the top of the chart; the limit is in sight where memory comes near."""
    highest = highest_in_sight(most, limit, in_sight)
    return ticks_in(next((name for name, size in _UNITS.items() if highest >= size), "KiB"), highest)


def ticks_in(unit: str, highest: float) -> tuple[list[Tick], float]:
    """Round sizes in GiB, MiB or KiB from 0 up to `highest` bytes, and the bytes at the top of the chart."""
    units = highest / _UNITS[unit]
    step = round_step(units)
    top = max(step * math.ceil(units / step - 0.02), units * 1.03)
    values = itertools.takewhile(lambda value: value <= top * 1.001, (step * number for number in itertools.count()))
    ticks = [Tick(100 * (1 - value / top), f"{value:.4g} {unit}" if value else "0") for value in values]
    return ticks, top * _UNITS[unit]


def highest_in_sight(most: int, limit: int, in_sight: float = _IN_SIGHT) -> int:
    """The limit, where what is drawn comes near it or exceeds it; else the most that is drawn."""
    return max(most, limit) if limit <= in_sight * most else most
