"""What trainings came to: bars that they are held against, tables in Markdown, and all of it in JSON."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable
from typing import Any

from ..markdown import NONE, cell, table
from . import allocators
from .runs import AMPLE, Run

_MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Setup:
    """Where and how the trainings ran."""

    commit: str
    machine: dict[str, str]
    versions: dict[str, str | None]
    gpu: str
    gpu_memory_bytes: int
    simulated: bool
    seed: int
    warm_up: int
    steps: int
    repeats: int
    quick: bool
    # What was asked for and could not be had, one sentence each.
    left_out: list[str]


@dataclasses.dataclass(frozen=True)
class Bar:
    """Something that ours has to reach, and what it came to."""

    what: str
    bar: str
    measured: str
    reached: bool


@dataclasses.dataclass(frozen=True)
class Summary:
    """The repeats of one training with one allocator at one capacity, taken together."""

    runs: list[Run]

    @property
    def completed(self) -> bool:
        return all(run.completed for run in self.runs)

    @property
    def speeds(self) -> list[float]:
        """Steps per second; empty unless all repeats completed on a real GPU."""
        return [run.steps_per_second for run in self.runs if self.completed and run.steps_per_second is not None]

    @property
    def speed(self) -> float | None:
        """The median."""
        return statistics.median(self.speeds) if self.speeds else None

    @property
    def spread(self) -> float | None:
        """The standard deviation of the speeds as a part of the median; None for one repeat."""
        return statistics.stdev(self.speeds) / statistics.median(self.speeds) if len(self.speeds) > 1 else None

    def worst(self, field: str) -> int | None:
        """The highest that any repeat came to."""
        values = [getattr(run, field) for run in self.runs]
        return None if None in values else max(values)


def grouped(runs: Iterable[Run]) -> dict[tuple[str, str], dict[str, Summary]]:
    """By workload and capacity, then by allocator, all in the order of their first run."""
    groups: dict[tuple[str, str], dict[str, Summary]] = {}
    for run in runs:
        group = groups.setdefault((run.workload, run.capacity), {})
        group.setdefault(run.allocator, Summary([])).runs.append(run)
    return groups


def bars(runs: list[Run]) -> list[Bar]:
    """What is asked of ours on a real GPU; nothing where no speeds were measured."""
    if not any(run.steps_per_second for run in runs):
        return []
    return [
        _bar(workload, capacity, rival, group["frugal"], group[rival])
        for (workload, capacity), group in grouped(runs).items()
        for rival in ("native", "expandable")
        if {"frugal", rival} <= set(group) and (rival == "native" or capacity != AMPLE)
    ]


def _bar(workload: str, capacity: str, rival: str, ours: Summary, theirs: Summary) -> Bar:
    what = f"{workload}, {_at(capacity)}: steps per second, ours ÷ {rival}"
    bar = "≥ 0.99" if capacity == AMPLE else "> 1"
    if not ours.completed:
        return Bar(what, bar, "ours did not complete", False)
    if not theirs.completed:
        return Bar(what, bar, f"{rival} did not complete, ours did", True)
    # Of the same repeat each, which ran close to each other: the machine's drift cancels out.
    ratio = statistics.median(a / b for a, b in zip(ours.speeds, theirs.speeds, strict=True))
    return Bar(what, bar, f"{ratio:.3f}", ratio >= 0.99 if capacity == AMPLE else ratio > 1)


def _at(capacity: str) -> str:
    return "ample memory" if capacity == AMPLE else f"{capacity} times ours' peak"


def as_json(setup: Setup, runs: list[Run]) -> dict[str, Any]:
    """What ``train_bench.py --json`` writes."""
    return {
        "benchmark": "train_bench",
        "setup": dataclasses.asdict(setup),
        "runs": [dataclasses.asdict(run) for run in runs],
        "bars": [dataclasses.asdict(bar) for bar in bars(runs)],
    }


def text(setup: Setup, runs: list[Run]) -> str:
    """A table for each workload and capacity, the bars, and what has to be known to read them."""
    parts = []
    for (workload, capacity), group in grouped(runs).items():
        size = next(iter(group.values())).runs[0].capacity_bytes
        held = f" ({_mib(setup.gpu_memory_bytes)})" if capacity == AMPLE else f" = {_mib(size)}" if size else ""
        parts.append(f"{workload}, {_at(capacity)}{held}")
        rows = [{"allocator": allocators.TITLES[name]} | _cells(setup, summary) for name, summary in group.items()]
        parts.append(table([*rows[0]], [[*row.values()] for row in rows]).rstrip())
    if judged := bars(runs):
        rows = [[bar.what, bar.bar, bar.measured, "reached" if bar.reached else "falls short"] for bar in judged]
        parts.append(table(["what", "bar", "measured", ""], rows).rstrip())
    problems = [
        f"{run.workload}, {run.capacity}, {allocators.TITLES[run.allocator]}: {run.problem}"
        for run in runs
        if run.outcome == "failed"
    ]
    return "\n\n".join([*parts, "\n".join(problems + setup.left_out + _notes(setup))])


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
