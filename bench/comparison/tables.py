"""The tables of bench/README.md."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from ..markdown import NONE, cell, table
from ..suite import AMPLE
from .choices import Alternative, Effect, difference, level
from .demands import Demand
from .figures import EXPANDABLE, NATIVE, OURS, RATIOS, Case, Figures

_MOST_NAMED = 3
_MINUS = "\N{MINUS SIGN}"
Text = Callable[[float | None], str]
_whole: Text = functools.partial(cell, form=",.0f")
_hundredths: Text = functools.partial(cell, form=".2f")
_ratio: Text = functools.partial(cell, form=".4f")


def times(cases: list[Case]) -> str:
    """Driver time of whole histories."""
    warm = {
        "warm at 4x": lambda case: _beside((case.ours.warm_ms(AMPLE), case.expandable.warm_ms(AMPLE)), _hundredths),
        "at 1.05x": lambda case: _hundredths(case.ours.warm_ms(1.05)),
    }
    return _histories(cases, Figures.driver_ms, _whole, warm)


def growing(cases: list[Case]) -> str:
    """Driver time up to the peak, for each GiB that was held there."""
    return _histories(cases, Figures.peak_ms_per_gib, _hundredths, {})


def memory(cases: list[Case]) -> str:
    """Memory in use, and the smallest GPU."""
    everyone = (OURS, EXPANDABLE, NATIVE)
    smallest = {
        "smallest GPU": lambda case: _beside((case.figures[who].smallest for who in everyone), _ratio),
        "bound": lambda case: _ratio(case.bound_bytes / case.workload.live_bytes),
    }
    return _histories(cases, Figures.in_use, _part, smallest)


def _histories(
    cases: list[Case],
    figure: Callable[[Figures, float], float | None],
    text: Text,
    more: dict[str, Callable[[Case], str]],
) -> str:
    """A figure of ours / expandable segments at each ratio, and more columns by their heads."""

    def at(case: Case, ratio: float) -> str:
        return _beside((figure(case.ours, ratio), figure(case.expandable, ratio)), text)

    columns = [*(functools.partial(at, ratio=ratio) for ratio in RATIOS), *more.values()]
    rows = [[case.name, *(column(case) for column in columns)] for case in cases]
    return table(["history", *(f"{ratio:g}x" for ratio in RATIOS), *more], rows)


def judged(demands: list[Demand]) -> str:
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
    return table(["demand", "limit", "reached by", "worst", "short of it"], rows)


def choices(cases: list[Case], alternatives: list[Alternative]) -> str:
    """What each alternative changes, in recorded / generated histories."""
    kinds = [[case for case in cases if case.workload.is_recorded is recorded] for recorded in (True, False)]
    rows = [["(as it is)", *_join(_level_cells(level(kind)) for kind in kinds)]]
    for alternative in alternatives:
        pairs = [[(case.ours, case.figures[alternative.title]) for case in kind] for kind in kinds]
        rows.append([_title(alternative), *_join(_difference_cells(difference(kind)) for kind in pairs)])
    head = ["option", "driver time at 4x", "at 1.25x", "in use at 4x", "smallest GPU", "warm at 1.05x", "failures"]
    return table(head, rows)


def _beside(values: Iterable[float | None], text: Text) -> str:
    return " / ".join(map(text, values))


def _join(rows: Iterable[list[str]]) -> list[str]:
    return [" / ".join(cells) for cells in zip(*rows, strict=True)]


def _title(alternative: Alternative) -> str:
    words = f" ({alternative.words})" if alternative.words else ""
    value = "\N{INFINITY}" if alternative.value >= 1 << 40 else f"{alternative.value:,}"
    return f"`{alternative.option}` {alternative.instead_of:,}: {value}{words}"


def _level_cells(effect: Effect) -> list[str]:
    driver_time = [_hundredths(effect.ample), _hundredths(effect.scarce)]
    return [*driver_time, _part(effect.in_use), _ratio(effect.smallest), _hundredths(effect.warm), str(effect.failures)]


def _difference_cells(effect: Effect) -> list[str]:
    return [
        _percent(effect.ample),
        _percent(effect.scarce),
        _signed(effect.in_use, 4),
        _signed(effect.smallest, 4),
        _signed(effect.warm, 2),
        _signed(effect.failures, 0),
    ]


def _part(value: float | None) -> str:
    """A number below 1 without its first digit, as the documents write it."""
    return _ratio(value).removeprefix("0")


def _value(value: float | None) -> str:
    if value is None:
        return "out of memory"
    return _signed(value, 0).lstrip("+") if value == round(value) else f"{value:.4g}".replace("-", _MINUS)


def _percent(ratio: float | None) -> str:
    return NONE if ratio is None else f"{_signed(100 * (ratio - 1), 0)} %"


def _signed(value: float | None, digits: int) -> str:
    if value is None:
        return NONE
    text = f"{value:+.{digits}f}"
    if not text.strip("+-0."):
        return "0"
    return text.replace("-", _MINUS).replace("0.", ".", 1) if text[1:].startswith("0.") else text.replace("-", _MINUS)
