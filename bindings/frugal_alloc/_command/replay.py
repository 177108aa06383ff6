"""``frugal-alloc replay``: recorded histories through several allocators, compared."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence

from simulated_gpu import gpu_choice

from .._common.arguments import Parser, refuse
from .._common.messages import format_bytes, format_columns
from .._planning.replay import history_files, replays
from .._planning.replay.history import History
from .._planning.replay.replays import REAL, Measurement
from . import options as shared
from . import progress

_GIB, _MIB = 1 << 30, 1 << 20

# What it means, and the cell of a row.
_Column = tuple[str, Callable[[Measurement], str]]


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
    gpu = gpu_choice.add_gpu(
        parser,
        memory="SIZE|min",
        more="; all of it is the allocator's (default 200GiB); min: also find the least in which the history completes",
    )
    gpu.add_argument(
        "--device",
        choices=("simulated", "real"),
        default="simulated",
        help="real: the first visible GPU and its driver's times; the memory is a limit there (default simulated)",
    )
    program = parser.add_argument_group("allocators")
    shared.add_allocator(program, "all", "; the environment's settings do not count")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print a list of objects instead of a table")


def carry_out(options: argparse.Namespace) -> int:
    finds_least = options.memory == "min"
    capacity = _capacity(options.gpu, None if finds_least else options.memory)
    try:
        histories = [history_files.read(history_files.find(name)) for name in options.histories]
        replayer = replays.Replayer(options.device)
        with progress.progress("replay", len(histories) * len(options.allocator)) as advance:

            def measure(history: History, allocator: str) -> Measurement:
                measurement = replayer.measure(history, allocator, capacity, finds_least)
                advance(f"{history.name} {allocator}")
                return measurement

            pairs = itertools.product(histories, options.allocator)
            measurements = replays.run_all(replayer, [functools.partial(measure, *pair) for pair in pairs])
    except replays.ReplayError as error:
        refuse("frugal-alloc replay", error)
        return 1
    if options.json:
        print(json.dumps([dataclasses.asdict(measurement) for measurement in measurements], indent=2))
    else:
        print("\n".join(_table(measurements)))
    return 0


def _capacity(gpu: str | None, memory: str | None) -> int:
    """The bytes that an allocator has: of a GPU that is named, what its context leaves."""
    if gpu is None and memory is None:
        return replays.DEFAULT_CAPACITY
    size, machine = gpu_choice.choose(argparse.Namespace(gpu=gpu, memory=memory, gpus=1), base={})
    return size if memory is not None else size - int(machine[gpu_choice.CONTEXT])


def _table(measurements: Sequence[Measurement]) -> Iterator[str]:
    """At most 80 columns wide. Of each history a part, since what it has allocated is the same with all allocators."""
    is_large = max(row.peak_reserved_bytes for row in measurements) >= _GIB
    name, unit = ("GiB", _GIB) if is_large else ("MiB", _MIB)
    columns = _columns(unit, measurements[0].device == REAL)
    if not any(row.min_capacity_bytes for row in measurements):
        del columns["least"]
    rows = [[*columns], *([cell(row) for _, cell in columns.values()] for row in measurements)]
    titles, *lines = format_columns(rows, texts=1)
    for history, group in itertools.groupby(zip(measurements, lines, strict=True), lambda pair: pair[0].history):
        pairs = list(group)
        yield f"{history.split('.')[0]}: at most {format_bytes(pairs[0][0].peak_live_bytes)} allocated; below in {name}"
        yield from (f"  {line}" for line in (titles, *(line for _, line in pairs)))
        yield ""
    yield from (f"{head}: {meaning}" for head, (meaning, _) in columns.items() if meaning)


def _columns(unit: int, is_real: bool) -> dict[str, _Column]:
    """By their heads."""
    columns: dict[str, _Column] = {
        "allocator": ("", lambda row: row.allocator),
        "reserved": ("the most at a time", lambda row: _written(row.peak_reserved_bytes, 2, unit)),
        "used": ("the most allocated / reserved; OOM: out of memory", _used),
        "least": ("the smallest memory that will do", lambda row: _written(row.min_capacity_bytes, 2, unit)),
        "calls": ("of the driver", lambda row: str(sum(row.driver_calls.values()))),
        "driver ms": ("what they take, as modelled", lambda row: _written(row.driver_ns, 1, 1e6)),
        "ns/pair": (
            "the allocator's own time for an allocation and its free",
            lambda row: _written(row.ns_per_pair, 0),
        ),
    }
    if is_real:
        columns["driver ms"] = ("what they take, measured", columns["driver ms"][1])
        columns["all ms"] = ("what all calls into the allocator take", lambda row: _written(row.host_ns, 1, 1e6))
    return columns


def _used(row: Measurement) -> str:
    return "OOM" if row.utilisation is None else f"{row.utilisation:.1%}"


def _written(figure: float | None, digits: int, unit: float = 1) -> str:
    return "-" if figure is None else f"{figure / unit:.{digits}f}"
