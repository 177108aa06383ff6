"""The tables of single histories, and of demands."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from ..suite import AMPLE
from ..table import NONE, Table, cell
from .demands import Demand
from .figures import EXPANDABLE, NATIVE, OURS, RATIOS, Case, Figures

_MOST_NAMED = 3
_MINUS = "\N{MINUS SIGN}"
Text = Callable[[float | None], str]
_whole: Text = functools.partial(cell, form=",.0f")
hundredths: Text = functools.partial(cell, form=".2f")
fraction: Text = functools.partial(cell, form=".4f")


def times(cases: list[Case]) -> Table:
    """Driver time of whole histories."""
    warm = {
        "warm at 4x": lambda case: beside(map(hundredths, (case.ours.warm_ms(AMPLE), case.expandable.warm_ms(AMPLE)))),
        "at 1.05x": lambda case: hundredths(case.ours.warm_ms(1.05)),
    }
    return _histories(cases, Figures.driver_ms, _whole, warm)


def growing(cases: list[Case]) -> Table:
    """Driver time up to the peak, for each GiB that was held there."""
    return _histories(cases, Figures.peak_ms_per_gib, hundredths, {})


def memory(cases: list[Case]) -> Table:
    """Memory in use, and the smallest GPU."""
    everyone = (OURS, EXPANDABLE, NATIVE)
    smallest = {
        "smallest GPU": lambda case: beside(fraction(case.figures[who].smallest) for who in everyone),
        "bound": lambda case: fraction(case.bound_bytes / case.workload.live_bytes),
    }
    return _histories(cases, Figures.in_use, part, smallest)


def _histories(
    cases: list[Case],
    figure: Callable[[Figures, float], float | None],
    text: Text,
    more: dict[str, Callable[[Case], str]],
) -> Table:
    """A figure of ours / expandable segments at each ratio, and more columns by their heads."""

    def at(case: Case, ratio: float) -> str:
        return beside(text(figure(figures, ratio)) for figures in (case.ours, case.expandable))

    columns = [*(functools.partial(at, ratio=ratio) for ratio in RATIOS), *more.values()]
    rows = [[case.name, *(column(case) for column in columns)] for case in cases]
    return Table(["history", *(f"{ratio:g}x" for ratio in RATIOS), *more], rows)


def judged(demands: list[Demand]) -> Table:
    """Which demands are reached."""
    rows = []
    for demand in demands:
        short = demand.short()
        named = [f"{name} {_value(demand.values[name])}" for name in short[:_MOST_NAMED]]
        if len(short) > _MOST_NAMED:
            named.append("…")
        sign = "≥" if demand.at_least else "≤"
        reached = f"{len(demand.values) - len(short)} of {len(demand.values)}"
        rows.append([demand.what, f"{sign} {demand.limit:g}", reached, _value(demand.worst()), ", ".join(named)])
    return Table(["demand", "limit", "reached by", "worst", "short of it"], rows)


def beside(cells: Iterable[str]) -> str:
    return " / ".join(cells)


def part(value: float | None) -> str:
    """A number below 1 without its first digit, as the documents write it."""
    return fraction(value).removeprefix("0")


def _value(value: float | None) -> str:
    if value is None:
        return "out of memory"
    return signed(value, 0).lstrip("+") if value == round(value) else f"{value:.4g}".replace("-", _MINUS)


def signed(value: float | None, digits: int) -> str:
    if value is None:
        return NONE
    text = f"{value:+.{digits}f}"
    if not text.strip("+-0."):
        return "0"
    return text.replace("-", _MINUS).replace("0.", ".", 1) if text[1:].startswith("0.") else text.replace("-", _MINUS)
