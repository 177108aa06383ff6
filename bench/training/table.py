"""Trainings as tables in Markdown."""

from __future__ import annotations

from ..markdown import NONE, cell, table
from . import allocators
from .results import AMPLE, Bar, Run, Setup, Summary, grouped

_MIB = 1 << 20


def text(setup: Setup, runs: list[Run], bars: list[Bar]) -> str:
    """A table for each workload and capacity, the bars, and what has to be known to read them."""
    parts = []
    for (workload, capacity), group in grouped(runs).items():
        size = next(iter(group.values())).runs[0].capacity_bytes
        at = f"ample memory ({_mib(setup.gpu_memory_bytes)})" if capacity == AMPLE else f"{capacity} times ours' peak"
        parts.append(f"{workload}, {at}" + (f" = {_mib(size)}" if size else ""))
        cells = {allocators.TITLES[name]: _cells(setup, summary) for name, summary in group.items()}
        head = ["allocator", *next(iter(cells.values()))]
        parts.append(table(head, [[title, *row.values()] for title, row in cells.items()]).rstrip())
    if bars:
        verdicts = [[bar.what, bar.bar, bar.measured, "reached" if bar.reached else "falls short"] for bar in bars]
        parts.append(table(["what", "bar", "measured", ""], verdicts).rstrip())
    return "\n\n".join([*parts, "\n".join(_problems(runs) + setup.left_out + _notes(setup))])


def _cells(setup: Setup, summary: Summary) -> dict[str, str]:
    """By the heads of their columns."""
    first = summary.runs[0]
    calls = None if first.driver_calls is None else sum(first.driver_calls.values())
    speed = {"steps/s": cell(summary.speed, ".3f"), "spread": cell(summary.spread, ".1%")}
    return ({} if setup.simulated else speed) | {
        "in tensors": _mib(summary.worst("peak_allocated_bytes")),
        "held": _mib(summary.worst("peak_reserved_bytes")),
        "retries": cell(summary.worst("alloc_retries"), "d"),
        "driver calls": cell(calls, ",d"),
        "driver ms": _ms(first.driver_ns),
        "after warm-up": _ms(first.window_driver_ns),
        "end": _end(setup, summary),
    }


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
    return NONE if size is None else f"{size / _MIB:,.0f} MiB"


def _ms(ns: int | None) -> str:
    return cell(None if ns is None else ns / 1e6, ",.1f")
