"""The tables that //bench:replay_bench prints."""

from __future__ import annotations

import sys

from .replay_results import Bar, Results, Value

_GIB = 1 << 30
# How many histories that fall short are named in a row.
_MOST_NAMED = 3


def print_results(results: Results) -> None:
    """To standard output."""
    _print_histories(results)
    print()
    _print_bars(results)


def _print_histories(results: Results) -> None:
    """Utilisation and smallest capacity of every history with every allocator."""
    found = {(one.history, one.allocator): one for one in results.measurements}
    head = ["history", "events", "live GiB"]
    head += [f"in use: {allocator}" for allocator in results.allocators]
    head += [f"min: {allocator}" for allocator in results.allocators]
    table = [head]
    for one in results.inputs:
        row = [one.name, str(one.events), f"{one.peak_live_bytes / _GIB:.2f}"]
        measured = [found[one.name, allocator] for allocator in results.allocators]
        row += ["failed" if m.utilisation is None else f"{m.utilisation:.2%}" for m in measured]
        for m in measured:
            minimum = m.min_capacity_bytes
            row.append("-" if minimum is None else f"{minimum / one.peak_live_bytes:.4f}")
        table.append(row)
    _print_table(table, left=1)


def _print_bars(results: Results) -> None:
    """The worst value of every allocator in each row, and whether the first allocator reaches the bar."""
    ours, *peers = results.allocators
    table = [["what", "bar", "stretch", f"{ours}: worst", *(f"{peer}: worst" for peer in peers), f"{ours}"]]
    for bar in results.bars:
        sign = ">=" if bar.at_least else "<="
        limit = "-" if bar.bar is None else f"{sign} {bar.bar:g}"
        stretch = bar.stretch_is or ("-" if bar.stretch is None else f"{sign} {bar.stretch:g}")
        name = f"{bar.what} [{bar.unit}]" if bar.unit else bar.what
        worst = [_worst(bar, allocator) for allocator in results.allocators]
        table.append([name, limit, stretch, *worst, _verdict(bar, ours)])
    _print_table(table, left=1, last_left=True)


def _worst(bar: Bar, allocator: str) -> str:
    values = [value for value in bar.values if value.allocator == allocator]
    return _text(max(values, key=lambda value: _badness(bar, value))) if values else "-"


def _badness(bar: Bar, value: Value) -> tuple[bool, float]:
    """Failing is worst; a value that is excused counts as it is."""
    if value.value is None:
        return True, 0.0
    return False, -value.value if bar.at_least else value.value


def _verdict(bar: Bar, allocator: str) -> str:
    values = [value for value in bar.values if value.allocator == allocator]
    if not values:
        return "-"
    if bar.bar is None and bar.stretch is None and bar.stretch_is is None:
        return "for information"
    if all(value.meets_stretch for value in values):
        return "pass, with stretch"
    if bar.bar is not None and all(value.meets_bar for value in values):
        return "pass"
    short = [value for value in values if not (value.meets_stretch if bar.bar is None else value.meets_bar)]
    short.sort(key=lambda value: _badness(bar, value), reverse=True)
    named = ", ".join(f"{value.history} {_text(value)}" for value in short[:_MOST_NAMED])
    more = ", ..." if len(short) > _MOST_NAMED else ""
    return f"SHORT in {len(short)} of {len(values)}: {named}{more}"


def _text(value: Value) -> str:
    if value.value is None:
        return "out of memory"
    if value.value == 0 or value.value >= 1_000:
        return f"{value.value:.0f}"
    return f"{value.value:.4g}"


def _print_table(table: list[list[str]], left: int, last_left: bool = False) -> None:
    count = len(table[0])
    widths = [max(len(row[column]) for row in table) for column in range(count)]
    for row in table:
        cells = [
            cell.ljust(width) if column < left or (last_left and column == count - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip(), file=sys.stdout)
