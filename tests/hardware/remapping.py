"""P1: what remapping costs to a kernel, and beside other processes."""

from __future__ import annotations

import contextlib
import ctypes
import json
import statistics
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from ctypes import byref, c_uint64

from frugal_alloc._command.doctor import kernels
from frugal_alloc._command.doctor.costs import CallTimes, Latencies, now
from frugal_alloc._command.doctor.driver import COMPUTE_MODE, MULTIPROCESSORS
from frugal_alloc._command.doctor.processes import started
from frugal_alloc._command.doctor.step import StepFailed, StepReport
from frugal_alloc._command.doctor.virtual_memory import GIB, MIB, PAGE, Gpu, opened_gpu

from . import kit

PROCESSES = (1, 2, 4, 8)
_REMAPPED = 32
_SPIN_NANOSECONDS = 200_000_000
_THREADS, _VECTOR = 256, 16
_BLOCKS_FOR_EACH_MULTIPROCESSOR = 8
#: What the driver takes for a process, roughly.
_CONTEXT_BYTES = 768 * MIB
_SECONDS_TOGETHER = 1.0


def run(report: StepReport) -> None:
    with opened_gpu() as gpu:
        with report.part("a kernel beside remapping"):
            _beside_a_kernel(gpu, report)
        with report.part("processes at once"):
            _processes(gpu, report)


# --- What a kernel sees of it.


def _beside_a_kernel(gpu: Gpu, report: StepReport) -> None:
    size = max(PAGE, gpu.most_bytes(report, 4 * GIB) // 4 // PAGE * PAGE)
    grid = gpu.attribute(MULTIPROCESSORS) * _BLOCKS_FOR_EACH_MULTIPROCESSOR
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        timing, placement = enter(kernels.loaded(gpu, "timing")), enter(kernels.loaded(gpu, "placement", kit.KERNELS))
        source, target, stream = enter(gpu.segment(size)), enter(gpu.segment(size)), enter(gpu.stream())
        made = enter(gpu.handles(_REMAPPED, PAGE))
        gpu.call("cuMemsetD32Async", source, 1, size // 4, stream)
        copy = placement.kernel("copy", grid, _THREADS, c_uint64(target), c_uint64(source), c_uint64(size // _VECTOR))
        spin = timing.kernel("spin", 1, 1, c_uint64(_SPIN_NANOSECONDS))
        repeats = report.rounds(200, 2)
        _copies(gpu, spin, copy, stream, 1)  # the first launch loads the kernels
        alone, _ = _copies(gpu, spin, copy, stream, repeats)
        with _remapping(gpu, made) as times:
            beside, enqueuing = _copies(gpu, spin, copy, stream, repeats)
    unmap = times.latencies("unmap", PAGE, len(made))
    said = f"{alone:.3g} ms alone; {unmap.count if unmap else 0} rounds of {len(made)} handles meanwhile"
    if enqueuing > _SPIN_NANOSECONDS / 1e6:
        said += "; launches came late, which is in it"
    report.detail("a kernel beside remapping", alone_ms=alone, beside_ms=beside, enqueuing_ms=enqueuing)
    report.figure("a memory-bound kernel beside remapping ÷ alone", beside / max(alone, 1e-6), "times", said)


def _copies(gpu: Gpu, spin: kernels.Kernel, copy: kernels.Kernel, stream: int, repeats: int) -> tuple[float, float]:
    """Milliseconds of a copy, and of enqueuing them all: behind a kernel, so that they follow each other at once."""
    with gpu.event(timed=True) as start, gpu.event(timed=True) as end:
        began = now()
        spin.launch(stream)
        gpu.call("cuEventRecord", start, stream)
        for _ in range(repeats):
            copy.launch(stream)
        gpu.call("cuEventRecord", end, stream)
        enqueuing = (now() - began) / 1e6
        gpu.call("cuEventSynchronize", end)
        return gpu.milliseconds(start, end) / repeats, enqueuing


@contextlib.contextmanager
def _remapping(gpu: Gpu, made: list[int]) -> Iterator[CallTimes]:
    """Another thread maps and unmaps the handles all the while. Its times are whole after the block."""
    context, times = ctypes.c_void_p(), CallTimes(gpu)
    gpu.call("cuCtxGetCurrent", byref(context))
    began, enough = threading.Event(), threading.Event()

    def remap() -> None:
        try:
            gpu.call("cuCtxSetCurrent", context)
            while not enough.is_set():
                times.map_and_unmap(made, PAGE)
                began.set()
        finally:
            began.set()

    with futures.ThreadPoolExecutor() as threads:
        remapping = threads.submit(remap)
        try:
            began.wait()
            yield times
        finally:
            enough.set()
        remapping.result()


# --- Several processes.


def _processes(gpu: Gpu, report: StepReport) -> None:
    name = "map, open and unmap in each of {} processes at once"
    if gpu.attribute(COMPUTE_MODE) != 0:
        report.skip(name.format("several"), "the GPU's compute mode allows one process")
        return
    for count in PROCESSES[:2] if report.simulated else PROCESSES:
        free, _ = gpu.memory_info()
        if count * _CONTEXT_BYTES > free // 4 or report.seconds_left() < (2 + count) * _SECONDS_TOGETHER:
            report.skip(name.format(count), "no memory or no time was left for so many")
            continue
        found = _remap_together(count, _SECONDS_TOGETHER * (0.1 if report.simulated else 1.0))
        report.detail("processes at once", processes=count, microseconds=found)
        worst = max(process["p99"] for process in found)
        median = statistics.median(process["p50"] for process in found)
        report.figure(name.format(count), median, "µs", f"the worst p99 {worst:.0f}")
    report.check("processes at once", True, "all of them came to their end")


def _remap_together(count: int, seconds: float) -> list[dict[str, float]]:
    """Each process's latencies; they begin when all are ready."""
    with contextlib.ExitStack() as stack:
        children = []
        for _ in range(count):
            child = stack.enter_context(started(_remap_at_a_word, seconds))
            stack.callback(child.kill)
            children.append(child)
        if not all(child.stdout.readline() for child in children):
            raise StepFailed("a process could not begin")
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        said = [child.stdout.readline() for child in children]
        if not all(said):
            raise StepFailed("a process ended in the middle of it")
        return [json.loads(line) for line in said]


def _remap_at_a_word(seconds: float) -> None:
    found = []
    with opened_gpu() as gpu, gpu.handles(1, PAGE) as made:
        times = CallTimes(gpu)
        times.map_and_unmap(made, PAGE)
        print("ready", flush=True)
        sys.stdin.readline()
        end = now() + int(seconds * 1e9)
        while not found or now() < end:
            began = now()
            times.map_and_unmap(made, PAGE)
            found.append(now() - began)
        print(json.dumps(Latencies.of(found).as_json()), flush=True)
