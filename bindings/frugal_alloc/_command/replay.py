"""``frugal-alloc replay``: recorded histories through several allocators, compared."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import json
from collections.abc import Sequence

from .._common.arguments import Parser, refuse
from .._common.messages import format_columns
from .._replay import history_files, replays
from .._replay.history import History
from .._replay.replays import REAL, Measurement
from .._simulation import simulated_gpu
from . import progress

_GIB, _MIB = 1 << 30, 1 << 20


def add(parser: Parser) -> None:
    parser.description = (
        "Plays recorded allocation histories through allocators on a simulated GPU, which it starts itself, or on a "
        "real one, and compares how much memory and driver time each takes."
    )
    parser.add_argument(
        "histories",
        metavar="HISTORY",
        nargs="+",
        help="file of torch.cuda.memory._dump_snapshot, Kineto trace or list of events (plain, .xz or .gz), or the "
        "name of one that comes with the project",
    )
    parser.add_argument(
        "--allocator",
        metavar="NAME,...",
        default="frugal,native,expandable",
        help="which to compare: frugal, native, expandable (native with expandable_segments); default all",
    )
    parser.add_argument(
        "--capacity",
        metavar="SIZE|min",
        help="memory of the GPU (default 200GiB); min: also find the smallest in which the history completes",
    )
    parser.add_argument(
        "--device",
        choices=("simulated", "real"),
        default="simulated",
        help="real: the first visible GPU and its driver's times; a capacity is a limit there (default simulated)",
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects instead of a table")


def carry_out(options: argparse.Namespace) -> int:
    allocators = list(dict.fromkeys(options.allocator.split(",")))
    for name in allocators:
        if name not in replays.ALLOCATORS:
            options.error(f"unknown allocator {name!r}; choose from {', '.join(replays.ALLOCATORS)}")
    capacity = replays.DEFAULT_CAPACITY
    if options.capacity not in (None, "min"):
        try:
            capacity = simulated_gpu.parse_size(options.capacity)
        except ValueError as error:
            options.error(f"--capacity: {error}")
    try:
        histories = [history_files.read(history_files.find(name)) for name in options.histories]
        replayer = replays.Replayer(options.device)
        with progress.progress("replay", len(histories) * len(allocators)) as advance:

            def measure(history: History, allocator: str) -> Measurement:
                measurement = replayer.measure(history, allocator, capacity, options.capacity == "min")
                advance(f"{history.name} {allocator}")
                return measurement

            pairs = itertools.product(histories, allocators)
            measurements = replays.run_all(replayer, [functools.partial(measure, *pair) for pair in pairs])
    except replays.ReplayError as error:
        refuse("frugal-alloc replay", error)
        return 1
    if options.json:
        print(json.dumps([dataclasses.asdict(measurement) for measurement in measurements], indent=2))
    else:
        print("\n".join(_table(measurements)))
    return 0


def _table(measurements: Sequence[Measurement]) -> list[str]:
    unit = _GIB if max(row.peak_reserved_bytes for row in measurements) >= _GIB else _MIB
    name, is_real = "GiB" if unit == _GIB else "MiB", measurements[0].device == REAL
    titles = (
        "history",
        "allocator",
        f"live {name}",
        f"held {name}",
        "in use",
        f"min {name}",
        "driver calls",
        "driver ms, measured" if is_real else "driver ms, modelled",
        *(("all calls ms",) if is_real else ()),
        "ns per pair",
    )
    return format_columns([titles, *(_cells(row, unit) for row in measurements)], texts=2)


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
