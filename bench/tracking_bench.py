"""What tracking takes of a training step: each step is made twice, with tracking and without, in the same process.

From the root of a checkout, where there is no GPU on the simulated one, whose kernels take no time of the processor::

    .venv/bin/python -m frugal_alloc simulate --memory 64GiB -- .venv/bin/python -m bench.tracking_bench

Processor time is that of all threads of the process. The memory is what tracking itself takes after many epochs.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from . import provenance
from .training import workloads

WORKLOADS = ("gpt2", "resnet50", "fasterrcnn")
EPOCHS = 100
BAD_INPUT = 2


class Cost(NamedTuple):
    """Of one workload; times are processor time in microseconds, medians of the pairs."""

    allocations: float  # of a step
    without_us: float
    added_us: float
    added_spread_us: tuple[float, float]  # the middle half of the pairs


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("tracking_bench", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=60, metavar="N", help="pairs of steps (default 60)")
    parser.add_argument("--workloads", nargs="+", default=WORKLOADS, choices=WORKLOADS, metavar="NAME")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    options = parser.parse_args(arguments)
    if options.pairs < 4:
        parser.error("--pairs must be at least 4")
    import torch

    if not torch.cuda.is_available():
        print("tracking_bench: there is no GPU; run it under frugal-alloc simulate", file=sys.stderr)
        return BAD_INPUT
    import frugal_alloc

    frugal_alloc.enable()
    print(
        f"commit {provenance.commit()}, torch {torch.__version__}, {torch.cuda.get_device_name()}, seed {options.seed}"
    )
    for title, value in provenance.machine().items():
        print(f"{title}: {value}")
    print(f"{'workload':<12}{'allocations':>12}{'step, us':>12}{'added, us':>12}{'middle half':>18}")
    for name in options.workloads:
        cost = _measure(name, options.pairs, options.seed)
        spread = "{:.0f} .. {:.0f}".format(*cost.added_spread_us)
        print(
            f"{name:<12}{cost.allocations:>12.0f}{cost.without_us:>12.0f}{cost.added_us:>12.0f}{spread:>18}", flush=True
        )
    kib = _memory_of_epochs()
    print(f"memory that {EPOCHS} epochs of the last workload's sites take: {kib / 1024:.1f} MiB")
    return 0


def _measure(workload: str, pairs: int, seed: int) -> Cost:
    import frugal_alloc

    shapes = random.Random(seed)
    step = workloads.build(workload, shapes, quick=False)
    for _ in range(5):
        step()
    added, without = [], []
    before = frugal_alloc.stats()["allocations"]
    for pair, tracked_first in enumerate(_alternate(pairs)):
        times = {}
        for tracked in (tracked_first, not tracked_first):
            _set_tracking(tracked)
            shapes.seed(f"{seed} {pair}")
            start = time.process_time_ns()
            step()
            times[tracked] = (time.process_time_ns() - start) / 1000
        without.append(times[False])
        added.append(times[True] - times[False])
    _set_tracking(True)
    allocations = (frugal_alloc.stats()["allocations"] - before) / (2 * pairs)
    quarters = statistics.quantiles(added, n=4)
    return Cost(allocations, statistics.median(without), statistics.median(added), (quarters[0], quarters[2]))


def _alternate(count: int) -> Iterator[bool]:
    for number in range(count):
        yield number % 2 == 0


_tracker = None


def _set_tracking(on: bool) -> None:
    """The library's part by its setting; Python's, which is set up once in a process, by hiding it from its hooks."""
    global _tracker
    import frugal_alloc
    from frugal_alloc import _tracking

    frugal_alloc.enable(track=on)
    _tracker = _tracker or _tracking.current()
    _tracking._current = _tracker if on else None


def _memory_of_epochs() -> int:
    """In KiB."""
    import frugal_alloc
    import torch

    kept = [torch.empty(64 << 10, device="cuda") for _ in range(64)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(EPOCHS):
        frugal_alloc.epoch_end()
    del kept
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


if __name__ == "__main__":
    sys.exit(main())
