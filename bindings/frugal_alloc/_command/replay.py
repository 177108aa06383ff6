"""``frugal-alloc replay``: recorded histories through several allocators, compared."""

from __future__ import annotations

import argparse

from .._common.arguments import Parser, refuse
from .._replay import history_files, replays, table
from .._simulation import simulated_gpu
from . import progress


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
            measurements = replays.measure_all(
                replayer, histories, allocators, capacity, options.capacity == "min", advance
            )
    except replays.ReplayError as error:
        refuse("frugal-alloc replay", error)
        return 1
    if options.json:
        print(replays.to_json(measurements))
    else:
        table.print_table(measurements)
    return 0
