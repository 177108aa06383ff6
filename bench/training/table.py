"""Trainings as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from . import allocators
from .results import AMPLE, Bar, Run, Setup, Summary, grouped

_MIB = 1 << 20
_Cells = tuple[str, ...]


def text(setup: Setup, runs: list[Run], bars: list[Bar]) -> str:
    """A table for each workload and capacity, the bars, and what has to be known to read them."""
    lines = []
    for (workload, capacity), group in grouped(runs).items():
        size = next(iter(group.values())).runs[0].capacity_bytes
        at = f"ample memory ({_mib(setup.gpu_memory_bytes)})" if capacity == AMPLE else f"{capacity} times ours' peak"
        lines += [f"{workload}, {at}" + (f" = {_mib(size)}" if size else "")]
        row = _simulated_row if setup.simulated else _measured_row
        head = _SIMULATED_HEAD if setup.simulated else _MEASURED_HEAD
        lines += [*_aligned([head, *(row(setup, name, summary) for name, summary in group.items())]), ""]
    if bars:
        head = ("", "bar", "measured", "")
        rows = ((bar.what, bar.bar, bar.measured, "reached" if bar.reached else "falls short") for bar in bars)
        lines += [*_aligned([head, *rows]), ""]
    lines += _problems(runs) + setup.left_out + _notes(setup)
    return "\n".join(lines)


_MEASURED_HEAD = (
    *("", "steps/s", "spread", "in tensors", "held", "retries"),
    *("driver calls", "driver ms", "after warm-up", "end"),
)


def _measured_row(setup: Setup, name: str, summary: Summary) -> _Cells:
    return (
        allocators.TITLES[name],
        "-" if summary.speed is None else f"{summary.speed:.3f}",
        "-" if summary.spread is None else f"± {summary.spread:.1%}",
        *_memory(summary),
        *_driver(summary.runs[0]),
        _end(setup, summary),
    )


_SIMULATED_HEAD = ("", "in tensors", "held", "retries", "driver calls", "driver ms", "after warm-up", "end")


def _simulated_row(setup: Setup, name: str, summary: Summary) -> _Cells:
    return (allocators.TITLES[name], *_memory(summary), *_driver(summary.runs[0]), _end(setup, summary))


def _driver(run: Run) -> _Cells:
    calls = None if run.driver_calls is None else sum(run.driver_calls.values())
    return ("-" if calls is None else f"{calls:,}", _ms(run.driver_ns), _ms(run.window_driver_ns))


def _memory(summary: Summary) -> _Cells:
    retries = summary.worst("alloc_retries")
    return (
        _mib(summary.worst("peak_allocated_bytes")),
        _mib(summary.worst("peak_reserved_bytes")),
        "-" if retries is None else str(retries),
    )


def _end(setup: Setup, summary: Summary) -> str:
    for run in summary.runs:
        if not run.completed:
            which = f" of repeat {run.repeat + 1}" if len(summary.runs) > 1 else ""
            how = "out of memory" if run.outcome == "out_of_memory" else "failed"
            return f"{how} in step {run.steps_done + 1}{which}"
    return f"completed {setup.warm_up + setup.steps} steps"


def _problems(runs: list[Run]) -> list[str]:
    failed = (run for run in runs if run.outcome == "failed")
    return [f"{run.workload}, {run.capacity}, {allocators.TITLES[run.allocator]}: {run.problem}" for run in failed]


def _notes(setup: Setup) -> list[str]:
    counted = "Held: the most that the allocator had of the GPU. Retries: times that it gave memory back to go on."
    if setup.simulated:
        return [
            counted,
            "On a simulated GPU, for allocation only: kernels take no time there, so no speed was measured.",
            "Driver time, in all and after the warm-up, is by the model in docs/simulated_gpu.md.",
        ]
    repeats = f"{setup.repeats} repeats" if setup.repeats > 1 else "one repeat"
    return [
        f"{counted} Steps/s: median of {repeats}; spread: standard deviation ÷ median.",
        "Driver ms, in all and after the warm-up, were measured around each call of ours in the first repeat. "
        "PyTorch's allocators do not tell theirs: their calls are the times that they took memory or gave some back.",
        "A capacity limits what an allocator holds; cudaMallocAsync's limits tensors only, and its pool may hold more.",
    ]


def _mib(size: int | None) -> str:
    return "-" if size is None else f"{size / _MIB:,.0f} MiB"


def _ms(ns: int | None) -> str:
    return "-" if ns is None else f"{ns / 1e6:,.1f}"


def _aligned(rows: Sequence[_Cells]) -> list[str]:
    """Columns side by side: the first and the last to the left, those between to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    last = len(widths) - 1
    return [
        "  ".join(
            c.ljust(w) if n in (0, last) else c.rjust(w) for n, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
