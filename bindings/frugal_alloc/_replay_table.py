"""The table that ``frugal-alloc replay`` prints."""

from __future__ import annotations

import sys
from typing import TextIO

from ._replay import Measurement

_COLUMNS = (
    "history",
    "allocator",
    "peak live",
    "peak reserved",
    "utilisation",
    "min capacity",
    "driver calls",
    "driver time",
    "ns per pair",
)


def print_table(measurements: list[Measurement], file: TextIO | None = None) -> None:
    """On standard output by default."""
    file = file or sys.stdout
    rows = [_cells(measurement) for measurement in measurements]
    try:
        import rich.console
        import rich.table
    except ImportError:
        _print_plain(rows, file)
        return
    table = rich.table.Table()
    for number, title in enumerate(_COLUMNS):
        table.add_column(title, justify="left" if number < 2 else "right")
    for row in rows:
        table.add_row(*row)
    # To a pipe or a file, a line must not be broken at some 80 columns.
    rich.console.Console(file=file, width=None if file.isatty() else 200).print(table)


def _cells(row: Measurement) -> tuple[str, ...]:
    minimum = row.min_capacity_bytes
    return (
        row.history,
        row.allocator,
        _gib(row.peak_live_bytes),
        _gib(row.peak_reserved_bytes),
        f"{row.utilisation:.1%}" if row.utilisation is not None else f"out of memory at {row.failed_at}",
        "-" if minimum is None else f"{minimum / row.peak_live_bytes:.3f} x live",
        str(sum(row.driver_calls.values())),
        f"{row.driver_ns / 1e6:.1f} ms",
        "-" if row.ns_per_pair is None else f"{row.ns_per_pair:.0f}",
    )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB" if size >= 1 << 28 else f"{size / (1 << 20):.1f} MiB"


def _print_plain(rows: list[tuple[str, ...]], file: TextIO) -> None:
    table = [_COLUMNS, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(_COLUMNS))]
    for row in table:
        cells = [cell.ljust(widths[n]) if n < 2 else cell.rjust(widths[n]) for n, cell in enumerate(row)]
        print("  ".join(cells).rstrip(), file=file)
