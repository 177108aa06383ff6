"""The table that ``frugal-alloc replay`` prints."""

from __future__ import annotations

import sys
from typing import TextIO

from .replays import REAL, Measurement

_GIB, _MIB = 1 << 30, 1 << 20


def print_table(measurements: list[Measurement], file: TextIO | None = None) -> None:
    """On standard output by default."""
    file = file or sys.stdout
    unit = _GIB if max(row.peak_reserved_bytes for row in measurements) >= _GIB else _MIB
    real = measurements[0].device == REAL
    columns = _columns("GiB" if unit == _GIB else "MiB", real)
    rows = [_cells(row, unit) for row in measurements]
    try:
        import rich.box
        import rich.console
        import rich.table
    except ImportError:
        _print_plain([columns, *rows], file)
        return
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for number, title in enumerate(columns):
        table.add_column(title, justify="left" if number < 2 else "right", no_wrap=number < 2)
    for row in rows:
        table.add_row(*row)
    # To a pipe or a file, a line must not be broken at some 80 columns.
    rich.console.Console(file=file, width=None if file.isatty() else 200).print(table)


def _columns(unit: str, real: bool) -> tuple[str, ...]:
    return (
        "history",
        "allocator",
        f"live {unit}",
        f"held {unit}",
        "in use",
        f"min {unit}",
        "driver calls",
        "driver ms, measured" if real else "driver ms, modelled",
        *(("all calls ms",) if real else ()),
        "ns per pair",
    )


def _cells(row: Measurement, unit: int) -> tuple[str, ...]:
    minimum = row.min_capacity_bytes
    return (
        row.history.split(".")[0],
        row.allocator,
        f"{row.peak_live_bytes / unit:.2f}",
        f"{row.peak_reserved_bytes / unit:.2f}",
        f"{row.utilisation:.1%}" if row.utilisation is not None else "out of memory",
        "-" if minimum is None else f"{minimum / unit:.2f}",
        str(sum(row.driver_calls.values())),
        f"{row.driver_ns / 1e6:.1f}",
        *((f"{(row.host_ns or 0) / 1e6:.1f}",) if row.device == REAL else ()),
        "-" if row.ns_per_pair is None else f"{row.ns_per_pair:.0f}",
    )


def _print_plain(table: list[tuple[str, ...]], file: TextIO) -> None:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        cells = [cell.ljust(widths[n]) if n < 2 else cell.rjust(widths[n]) for n, cell in enumerate(row)]
        print("  ".join(cells).rstrip(), file=file)
