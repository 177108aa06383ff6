"""What remapping costs to a kernel that runs beside it, and beside other processes; and whether it matters to kernels
where memory lies."""

from __future__ import annotations

import contextlib
import json
import random
import statistics
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest
from frugal_alloc._command.doctor import driver
from frugal_alloc._command.doctor.costs import CallTimes, now
from frugal_alloc._command.doctor.driver import ADDRESS, COUNT, GIB, MIB, PAGE, WORD, Gpu, opened_gpu

from hardware.on_gpu import KERNELS, SIMULATED, Figure, are_ready, most_bytes, rounds, started

PROCESSES = (1, 2, 4, 8)
_REMAPPED = 32
_SPIN_NANOSECONDS = 200_000_000
_THREADS, _VECTOR, _READS = 256, 16, 64
_BLOCKS_FOR_EACH_MULTIPROCESSOR = 8
#: What the driver takes for a process, roughly.
_CONTEXT_BYTES = 768 * MIB
_SECONDS_TOGETHER = 0.1 if SIMULATED else 1.0


def grid_of(gpu: Gpu) -> int:
    return gpu.attribute("MULTIPROCESSOR_COUNT") * _BLOCKS_FOR_EACH_MULTIPROCESSOR


# --- What a kernel sees of it.


def test_kernel_beside_remapping(gpu: Gpu, figure: Figure) -> None:
    size = max(PAGE, most_bytes(gpu, 4 * GIB) // 4 // PAGE * PAGE)
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        timing, placement = enter(gpu.module(driver.KERNELS / "timing.cu")), enter(gpu.module(KERNELS / "placement.cu"))
        source, target, stream = enter(gpu.segment(size)), enter(gpu.segment(size)), enter(gpu.stream())
        start, end = enter(gpu.event(timed=True)), enter(gpu.event(timed=True))
        made = enter(gpu.handles(_REMAPPED, PAGE))
        gpu.call("cuMemsetD32Async", source, 1, size // 4, stream)
        copy = gpu.kernel(placement, "copy", grid_of(gpu), _THREADS, ADDRESS, ADDRESS, COUNT)
        spin = gpu.kernel(timing, "spin", 1, 1, COUNT)

        def copies(repeats: int) -> tuple[float, float]:
            """Milliseconds of a copy, and of enqueuing them all: behind a kernel, so that they follow each other."""
            began = now()
            gpu.launch(spin, stream, _SPIN_NANOSECONDS)
            gpu.call("cuEventRecord", start, stream)
            for _ in range(repeats):
                gpu.launch(copy, stream, target, source, size // _VECTOR)
            gpu.call("cuEventRecord", end, stream)
            enqueuing = (now() - began) / 1e6
            gpu.call("cuEventSynchronize", end)
            return gpu.call("cuEventElapsedTime", start, end) / repeats, enqueuing

        copies(1)  # the first launch loads the kernels
        alone, _ = copies(rounds(200))
        with remapping(gpu, made):
            beside, enqueuing = copies(rounds(200))
    late = "; launches came late, which is in it" if enqueuing > _SPIN_NANOSECONDS / 1e6 else ""
    said = f"{alone:.3g} ms alone{late}"
    figure("a memory-bound kernel beside remapping ÷ alone", beside / max(alone, 1e-6), "times", said)


@contextlib.contextmanager
def remapping(gpu: Gpu, made: list[int]) -> Iterator[None]:
    """Another thread maps and unmaps the handles all the while."""
    context, times = gpu.call("cuCtxGetCurrent"), CallTimes(gpu)
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
        running = threads.submit(remap)
        try:
            began.wait()
            yield
        finally:
            enough.set()
        running.result()


# --- Several processes.


@pytest.mark.parametrize("count", PROCESSES[:2] if SIMULATED else PROCESSES)
def test_processes_remap_at_once(count: int, gpu: Gpu, figure: Figure) -> None:
    if gpu.attribute("COMPUTE_MODE") != 0:
        pytest.skip("the GPU's compute mode allows one process")
    if count * _CONTEXT_BYTES > gpu.free_bytes() // 4:
        pytest.skip("no memory is left for so many")
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(started(remap_at_a_word)) for _ in range(count)]
        for child in children:
            stack.callback(child.kill)
        assert are_ready(children), "a process could not begin"
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        said = [child.stdout.readline() for child in children]
    assert all(said), "a process ended in the middle of it"
    found = [json.loads(line) for line in said]
    worst = max(worst for _, worst in found)
    median = statistics.median(median for median, _ in found)
    figure(f"map, open and unmap in each of {count} processes at once", median, "µs", f"the worst p99 {worst:.0f}")


def remap_at_a_word() -> None:
    """They begin when all are ready."""
    found = []
    with opened_gpu() as gpu, gpu.handles(1, PAGE) as made:
        times = CallTimes(gpu)
        times.map_and_unmap(made, PAGE)
        print("ready", flush=True)
        sys.stdin.readline()
        end = now() + int(_SECONDS_TOGETHER * 1e9)
        while not found or now() < end:
            began = now()
            times.map_and_unmap(made, PAGE)
            found.append((now() - began) / 1000)
        print(json.dumps((statistics.median(found), sorted(found)[int(0.99 * len(found))])), flush=True)


# --- Where memory lies.

# The size of the handles, and whether they are shuffled.
_CONTROL = "cudaMalloc"
_PLACES = {
    _CONTROL: (0, False),
    "handles of 2 MiB in order": (PAGE, False),
    "handles of 2 MiB shuffled": (PAGE, True),
    "handles of 64 MiB shuffled": (64 * MIB, True),
}


def test_kernels_run_wherever_memory_lies(gpu: Gpu, figure: Figure) -> None:
    size = most_bytes(gpu, 64 * GIB) // (64 * MIB) * 64 * MIB
    if not size:
        pytest.skip("others use this GPU, and 64 MiB are too much of what is left")
    control: dict[str, float] = {}
    with gpu.module(KERNELS / "placement.cu") as module:
        for title, place in _PLACES.items():
            with memory(gpu, size, *place) as start:
                found = rates(gpu, module, start, size)
            control = control or found
            for work, rate in found.items():
                said = f"{rate / control[work]:.3f} of {_CONTROL}'s"
                figure(f"{work}, {title}, {size / GIB:.3g} GiB", rate, "GB/s", said)


@contextlib.contextmanager
def memory(gpu: Gpu, size: int, handle_size: int, shuffled: bool) -> Iterator[int]:
    if not handle_size:
        with gpu.segment(size) as start:
            yield start
        return
    with gpu.handles(size // handle_size, handle_size) as made:
        placed = random.Random(1).sample(made, len(made)) if shuffled else made
        with gpu.mapped(placed, handle_size) as start:
            yield start


def rates(gpu: Gpu, module: Any, start: int, size: int) -> dict[str, float]:
    """GB/s of a copy from one half of the range to the other, both counted, and of reads at random over all of it."""
    grid, half, found = grid_of(gpu), size // 2, {}
    reading = grid * _BLOCKS_FOR_EACH_MULTIPROCESSOR
    gathered = reading * _THREADS * _READS * _VECTOR
    with gpu.segment(4) as total, gpu.stream() as stream, gpu.event(True) as began, gpu.event(True) as ended:
        gpu.call("cuMemsetD32Async", start, 1, size // 4, stream)
        copy = gpu.kernel(module, "copy", grid, _THREADS, ADDRESS, ADDRESS, COUNT)
        gather = gpu.kernel(module, "gather", reading, _THREADS, ADDRESS, COUNT, WORD, ADDRESS)
        for work, moved, kernel, *values in (
            ("copy", size, copy, start + half, start, half // _VECTOR),
            ("random reads of 16 bytes", gathered, gather, start, size // _VECTOR, _READS, total),
        ):
            milliseconds = []
            for _ in range(1 + rounds(5)):  # of which the first is not counted
                gpu.call("cuEventRecord", began, stream)
                gpu.launch(kernel, stream, *values)
                gpu.call("cuEventRecord", ended, stream)
                gpu.call("cuEventSynchronize", ended)
                milliseconds.append(max(gpu.call("cuEventElapsedTime", began, ended), 1e-6))
            found[work] = moved / statistics.median(milliseconds[1:]) / 1e6
    return found
