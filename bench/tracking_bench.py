"""What tracking takes of a training step: of each allocation by the depth of the calls, and how many a step makes.

From the root of a checkout, where there is no GPU on the simulated one::

    .venv/bin/python -m frugal_alloc simulate --memory 64GiB -- .venv/bin/python -m bench.tracking_bench

Times are processor time of the thread, of the quickest of many loops: a machine that does other things, too, only ever
makes one slower. The bound of a step takes all its allocations for recorded, from the deepest calls.
"""

from __future__ import annotations

import random
import resource
import statistics
import sys
import time
from collections.abc import Callable

import frugal_alloc
import torch
from frugal_alloc import _tracking
from frugal_alloc._common.arguments import Parser, refuse
from torch.utils._python_dispatch import _disable_current_modes

from .training import workloads

WORKLOADS = ("gpt2", "resnet50", "fasterrcnn")
DEPTHS = (1, 10, 40)
# One that the sample never leaves out, and one that it nearly always does.
SIZES = {"recorded": 1 << 20, "left out": 512}
LOOP = 1000
EPOCHS = 100
TINY_LAYERS = 19


def main(arguments: list[str] | None = None) -> int:
    parser = Parser("tracking_bench", description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40, metavar="N", help="loops of each kind (default 40)")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if not torch.cuda.is_available():
        return refuse("tracking_bench", "there is no GPU; run it under frugal-alloc simulate")
    frugal_alloc.enable()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    # Without the values that small tensors have on the simulated GPU: a real one has them for nothing.
    with _disable_current_modes():
        costs = _print_allocations(options.repeats)
        step_us = _measure_hook(options.repeats)
        print(f"each step of the optimizer: {step_us:.1f} us")
        _print_launch_bound(options.repeats)
    for name in WORKLOADS:
        allocations = _count(name, options.seed)
        bound_us = allocations * costs["recorded", DEPTHS[-1]] / 1000 + step_us
        print(f"{name}: {allocations:.0f} allocations a step, so at most {bound_us:.0f} us")
    print(f"{EPOCHS} epochs of all these: {_memory_of_epochs() / 1024:.1f} MiB")
    return 0


def _print_allocations(repeats: int) -> dict[tuple[str, int], float]:
    """What an allocation and its free take more with tracking, in nanoseconds, by kind and depth of the calls."""
    costs = {}
    for kind, size in SIZES.items():
        for depth in DEPTHS:

            def allocate(size: int = size) -> None:
                for _ in range(LOOP):
                    torch.empty(size, dtype=torch.uint8, device="cuda")

            quickest = _quickest(lambda: _call_at(depth, allocate), repeats)  # noqa: B023 called at once
            costs[kind, depth] = (quickest[True] - quickest[False]) / LOOP * 1000
            without = quickest[False] / LOOP * 1000
            print(f"{kind}, {depth} calls deep: {costs[kind, depth]:.0f} ns more than torch.empty's {without:.0f} ns")
    return costs


def _call_at(depth: int, function: Callable[[], None]) -> None:
    if depth <= 1:
        function()
    else:
        _call_at(depth - 1, function)


def _quickest(function: Callable[[], None], repeats: int) -> dict[bool, float]:
    """Microseconds of processor time, by whether tracking is on."""
    quickest: dict[bool, float] = {}
    for repeat in range(2 * repeats):
        on = repeat % 2 == 0
        _set_tracking(on)
        if repeat < 2:
            # Beyond those that each epoch records whatever their size.
            for _ in range(20):
                function()
        start = time.thread_time_ns()
        function()
        passed_us = (time.thread_time_ns() - start) / 1000
        quickest[on] = min(passed_us, quickest.get(on, passed_us))
    _set_tracking(True)
    return quickest


def _print_launch_bound(repeats: int) -> None:
    """A step of tiny layers, in which launching the kernels is all that takes time: the worst that tracking meets."""
    model = torch.nn.Sequential(*(_tiny_layer() for _ in range(TINY_LAYERS))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.zeros(8, 16, device="cuda")

    def step() -> None:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    steps = 20
    taken: dict[bool, list[float]] = {True: [], False: []}
    before = 0
    for repeat in range(2 * repeats):
        on = repeat % 2 == 0
        _set_tracking(on)
        for _ in range(3):
            step()
        before = frugal_alloc.stats()["allocations"]
        start = time.process_time_ns()
        for _ in range(steps):
            step()
        taken[on].append((time.process_time_ns() - start) / 1000 / steps)
    _set_tracking(True)
    allocations = (frugal_alloc.stats()["allocations"] - before) / steps
    more = statistics.median(on / off - 1 for on, off in zip(taken[True], taken[False], strict=True))
    print(
        f"launch-bound, {allocations:.0f} allocations in {min(taken[False]):.0f} us: {more:+.1%} with tracking "
        f"(quickest steps {min(taken[True]) / min(taken[False]) - 1:+.1%})"
    )


def _tiny_layer() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.LayerNorm(16), torch.nn.GELU())


def _set_tracking(on: bool) -> None:
    frugal_alloc.enable(track=on)


def _measure_hook(repeats: int) -> float:
    """What a step of the optimizer takes more, in microseconds: the tracking's own functions, with no optimizer."""
    tracker = _tracking.current()

    class Optimizer:
        param_groups = ()

    optimizer = Optimizer()
    # The ends of windows come ever more seldom, and are not what is measured.
    for _ in range(5000):
        tracker.optimizer_stepped(optimizer)
    quickest = float("inf")
    for _ in range(10 * repeats):
        start = time.thread_time_ns()
        for _ in range(10):
            tracker.optimizer_stepped(optimizer)
        quickest = min(quickest, (time.thread_time_ns() - start) / 1000 / 10)
    return quickest


def _count(workload: str, seed: int) -> float:
    step = workloads.build(workload, random.Random(seed), quick=False)
    for _ in range(3):
        step()
    before = frugal_alloc.stats()["allocations"]
    for _ in range(5):
        step()
    return (frugal_alloc.stats()["allocations"] - before) / 5


def _memory_of_epochs() -> int:
    """In KiB."""
    kept = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(EPOCHS):
        kept.append(torch.empty(1 << 20, device="cuda"))
        frugal_alloc.epoch_end()
    del kept
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


if __name__ == "__main__":
    sys.exit(main())
