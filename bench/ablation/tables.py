"""The tables of docs/performance.md, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from . import bought
from .bars import Bar
from .cases import Case
from .choices import Alternative
from .plays import AMPLE, RATIOS, Figures, Play
from .rivals import RivalPlay

_GIB = 1 << 30
_MOST_NAMED = 3
_MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"


def times(cases: list[Case]) -> str:
    """Driver time of whole histories."""
    rows = []
    for case in cases:
        cells = [
            f"{_ms(case.ours.plays[ratio].completed, case.ours.plays[ratio].driver_ns)} / "
            f"{_ms(case.expandable.plays[ratio].completed, case.expandable.plays[ratio].driver_ns)}"
            for ratio in RATIOS
        ]
        warm = f"{_number(case.warm(AMPLE), 2)} / {_number(case.expandable_warm, 2)}"
        rows.append([case.name, *cells, warm, _number(case.warm(1.05), 2)])
    head = ["history", *(f"{ratio:g}x" for ratio in RATIOS), "warm at 4x", "at 1.05x"]
    return _table(head, rows)


def growing(cases: list[Case]) -> str:
    """Driver time up to the peak, for each GiB that was held there."""
    rows = []
    for case in cases:
        pairs = [(case.ours.plays[ratio], case.expandable.plays[ratio]) for ratio in RATIOS]
        rows.append([case.name, *(f"{_ms_per_gib(ours)} / {_ms_per_gib(theirs)}" for ours, theirs in pairs)])
    return _table(["history", *(f"{ratio:g}x" for ratio in RATIOS)], rows)


def memory(cases: list[Case]) -> str:
    """Memory in use, and the smallest GPU."""
    bounded = any(case.bound_bytes is not None for case in cases)
    rows = []
    for case in cases:
        cells = [
            f"{_part(case.in_use(ratio))} / {_part(_in_use(case, case.expandable.plays[ratio]))}" for ratio in RATIOS
        ]
        smallest = (case.ours.smallest_bytes, case.expandable.smallest_bytes, case.native.smallest_bytes)
        row = [case.name, *cells, " / ".join(_of_live(case, size) for size in smallest)]
        rows.append([*row, _of_live(case, case.bound_bytes)] if bounded else row)
    head = ["history", *(f"{ratio:g}x" for ratio in RATIOS), "smallest GPU", *(["bound"] if bounded else [])]
    return _table(head, rows)


def judged(bars: list[Bar]) -> str:
    """Which bars are reached."""
    rows = []
    for bar in bars:
        short = bar.short()
        named = [f"{name} {_value(bar.values[name])}" for name in short[:_MOST_NAMED]]
        if len(short) > _MOST_NAMED:
            named.append("…")
        sign = "≥" if bar.at_least else "≤"
        reached = f"{len(bar.values) - len(short)} of {len(bar.values)}"
        rows.append([bar.what, f"{sign} {bar.limit:g}", reached, _value(bar.worst()), ", ".join(named)])
    return _table(["bar", "limit", "reached by", "worst", "short of it"], rows)


def choices(cases: list[Case], alternatives: list[Alternative], others: list[list[Figures]]) -> str:
    """`others`: by alternative, the figures of each case."""
    head = ["option", "driver time at 4x", "at 1.25x", "in use at 4x", "smallest GPU", "warm at 1.05x", "failures"]
    levels = [bought.level(part) for part in _by_kind(cases)]
    rows = [["(as it is)", *_join(_level_cells(level) for level in levels)]]
    for alternative, figures in zip(alternatives, others, strict=True):
        by_name = {id(case): one for case, one in zip(cases, figures, strict=True)}
        parts = [bought.difference(part, [by_name[id(case)] for case in part]) for part in _by_kind(cases)]
        rows.append([_title(alternative), *_join(_difference_cells(part) for part in parts)])
    return _table(head, rows)


def _by_kind(cases: list[Case]) -> list[list[Case]]:
    """Recorded ones, generated ones."""
    return [[case for case in cases if case.is_recorded is recorded] for recorded in (True, False)]


def _title(alternative: Alternative) -> str:
    words = f" ({alternative.words})" if alternative.words else ""
    value = "\N{INFINITY}" if alternative.value >= 1 << 40 else f"{alternative.value:,}"
    return f"`{alternative.option}` {alternative.instead_of:,}: {value}{words}"


def _level_cells(level: bought.Level) -> list[str]:
    times = [_number(level.ample, 2), _number(level.scarce, 2)]
    return [*times, _part(level.in_use), _number(level.smallest, 4), _number(level.warm, 2), str(level.failures)]


def _difference_cells(found: bought.Difference) -> list[str]:
    return [
        _percent(found.ample),
        _percent(found.scarce),
        _signed(found.in_use, 4),
        _signed(found.smallest, 4),
        _signed(found.warm, 2),
        _signed(found.failures, 0),
    ]


def _join(parts: Iterable[list[str]]) -> list[str]:
    return [" / ".join(cells) for cells in zip(*parts, strict=True)]


def _in_use(case: Case, play: RivalPlay) -> float | None:
    return case.live_bytes / play.held_bytes if play.completed else None


def _of_live(case: Case, size: int | None) -> str:
    return NONE if size is None else f"{size / case.live_bytes:.4f}"


def _ms(completed: bool, nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:,.0f}" if completed else NONE


def _ms_per_gib(play: Play | RivalPlay) -> str:
    return f"{play.driver_ns_to_peak / 1e6 / (play.held_bytes / _GIB):.2f}" if play.completed else NONE


def _part(value: float | None) -> str:
    """A number below 1 without its first digit, as the documents write it."""
    return NONE if value is None else f"{value:.4f}".removeprefix("0")


def _number(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


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


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
