"""Where the time of a program's steps goes: lines of Python, kernels, calls of CUDA, collections of garbage."""

from __future__ import annotations

import collections
import contextlib
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

_SECONDS_BETWEEN_SAMPLES = 0.001
_FRAMES = 4
_MOST_ENTRIES = 60
#: Of frugal_alloc.memory_stats(), what it did for the steps.
_DONE = ("allocations", "stitches", "stream_waits", "host_waits", "retries", "device_allocations", "device_frees")


def profile(steps: Callable[[], None], count: int, of_ours: bool) -> dict[str, Any]:
    """Carries out the steps twice, since what traces kernels would change the host's time. Milliseconds of a step."""
    before = _done() if of_ours else {}
    with _garbage() as garbage, _sampled() as stacks:
        began = time.perf_counter()
        steps()
        torch.cuda.synchronize()
        took = (time.perf_counter() - began) * 1e3 / count
    done = {name: (value - before[name]) / count for name, value in _done().items()} if of_ours else {}
    samples = max(1, sum(stacks.values()))
    return {
        "steps": count,
        "ms": took,
        "stacks": {stack: seen * took / samples for stack, seen in stacks.most_common(_MOST_ENTRIES)},
        "garbage": {"collections": len(garbage), "ms": sum(garbage) * 1e3 / count},
        "done": done,
        **_traced(steps, count),
    }


def _done() -> dict[str, int]:
    import frugal_alloc

    stats = frugal_alloc.memory_stats()
    return {name: stats[name] for name in _DONE}


@contextlib.contextmanager
def _garbage() -> Iterator[list[float]]:
    """Seconds of each collection in the block."""
    seconds: list[float] = []

    def watch(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            seconds.append(-time.perf_counter())
        else:
            seconds[-1] += time.perf_counter()

    gc.callbacks.append(watch)
    try:
        yield seconds
    finally:
        gc.callbacks.remove(watch)


@contextlib.contextmanager
def _sampled() -> Iterator[collections.Counter[str]]:
    """How often this thread was seen at which place in the block."""
    seen: collections.Counter[str] = collections.Counter()
    ended, thread, interval = threading.Event(), threading.get_ident(), sys.getswitchinterval()

    def watch() -> None:
        while not ended.wait(_SECONDS_BETWEEN_SAMPLES):
            seen[_innermost(sys._current_frames()[thread])] += 1

    watcher = threading.Thread(target=watch, daemon=True)
    sys.setswitchinterval(1e-4)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()
        sys.setswitchinterval(interval)


def _innermost(frame: FrameType | None) -> str:
    """The last frames, the innermost first."""
    named: list[str] = []
    while frame is not None and len(named) < _FRAMES:
        code = frame.f_code
        named.append(f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return " < ".join(named)


def _traced(steps: Callable[[], None], count: int) -> dict[str, Any]:
    """Milliseconds and number of kernels by name, and of calls of CUDA; why there are none."""
    kernels: dict[str, tuple[float, float]] = {}
    calls: dict[str, tuple[float, float]] = {}
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    try:
        with torch.profiler.profile(activities=activities) as profiler:
            steps()
            torch.cuda.synchronize()
        for entry in profiler.key_averages():
            if entry.device_type == torch.autograd.DeviceType.CUDA:
                kernels[entry.key] = entry.self_device_time_total / 1e3 / count, entry.count / count
            elif entry.key.startswith("cu"):
                calls[entry.key] = entry.self_cpu_time_total / 1e3 / count, entry.count / count
    except (RuntimeError, AttributeError) as error:
        return {"kernels": {}, "calls": {}, "untraced": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
    return {"kernels": _longest(kernels), "calls": _longest(calls)}


def _longest(entries: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    return dict(sorted(entries.items(), key=lambda entry: -entry[1][0])[:_MOST_ENTRIES])
