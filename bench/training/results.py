"""What trainings came to: the figures of each run, the bars they are held against, and both in JSON."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable
from typing import Any

AMPLE = "ample"


@dataclasses.dataclass(frozen=True)
class Run:
    """One training with one allocator at one capacity. Sizes in bytes; None: not known, or not reached."""

    workload: str
    allocator: str
    # "ample", or the multiple of the most that ours held with ample memory.
    capacity: str
    capacity_bytes: int | None
    repeat: int
    # "completed", "out_of_memory", or "failed": `problem` says how.
    outcome: str
    problem: str | None
    # Including those of the warm-up.
    steps_done: int
    # Over the window after the warm-up; None on the simulated GPU.
    steps_per_second: float | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    alloc_retries: int | None = None
    ooms: int | None = None
    # Calls for memory by kind, and the time of all driver calls, over the whole run and over the window alone. On the
    # simulated GPU as it counts and by its model. On a real one frugal_alloc's are measured; of PyTorch's allocators it
    # is known how often they took memory from the device ("malloc") and gave it back ("free").
    driver_calls: dict[str, int] | None = None
    driver_ns: int | None = None
    window_driver_calls: dict[str, int] | None = None
    window_driver_ns: int | None = None

    @property
    def completed(self) -> bool:
        return self.outcome == "completed"


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
    def _speeds(self) -> list[float]:
        return [run.steps_per_second for run in self.runs if run.steps_per_second is not None]

    @property
    def speed(self) -> float | None:
        """The median of the steps per second; None unless all repeats completed on a real GPU."""
        return statistics.median(self._speeds) if self.completed and self._speeds else None

    @property
    def spread(self) -> float | None:
        """The standard deviation of the steps per second as a part of the median; None for one repeat."""
        return None if self.speed is None or len(self._speeds) < 2 else statistics.stdev(self._speeds) / self.speed

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
    found = []
    for (workload, capacity), group in grouped(runs).items():
        ours = group.get("frugal")
        if ours is None or not any(run.steps_per_second for run in runs):
            continue
        for name in ("native", "expandable"):
            if name in group and (name == "native" or capacity != AMPLE):
                found.append(_bar(workload, capacity, name, ours, group[name]))
    return found


def _bar(workload: str, capacity: str, name: str, ours: Summary, theirs: Summary) -> Bar:
    what = f"{workload}, {_at(capacity)}: steps per second, ours ÷ {name}"
    bar = "≥ 0.99" if capacity == AMPLE else "> 1"
    if not ours.completed:
        return Bar(what, bar, "ours did not complete", False)
    if not theirs.completed:
        return Bar(what, bar, f"{name} did not complete, ours did", True)
    # Of the same repeat each, which ran close to each other: the machine's drift cancels out.
    ratios = [a.steps_per_second / b.steps_per_second for a, b in zip(ours.runs, theirs.runs, strict=True)]
    ratio = statistics.median(ratios)
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
