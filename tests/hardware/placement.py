"""P3: whether it matters to kernels where memory lies: cudaMalloc's, handles in order and shuffled, small and large."""

from __future__ import annotations

import contextlib
import random
import statistics
from collections.abc import Iterator
from ctypes import c_uint, c_uint64

from frugal_alloc._command.doctor import kernels
from frugal_alloc._command.doctor.driver import MULTIPROCESSORS
from frugal_alloc._command.doctor.step import StepReport
from frugal_alloc._command.doctor.virtual_memory import GIB, MIB, PAGE, Gpu, opened_gpu

from . import kit

_MOST = 64 * GIB
_REPEATS = 5
_SEED = 1
_THREADS = 256
_BLOCKS_FOR_EACH_MULTIPROCESSOR = 8
_READS = 64
_VECTOR = 16
_CONTROL = "cudaMalloc"
# The size of the handles, and whether they are shuffled.
_PLACES = {
    _CONTROL: (0, False),
    "handles of 2 MiB in order": (PAGE, False),
    "handles of 2 MiB shuffled": (PAGE, True),
    "handles of 64 MiB shuffled": (64 * MIB, True),
}


def run(report: StepReport) -> None:
    with opened_gpu() as gpu, report.part("placement"):
        largest = max(size for size, _ in _PLACES.values())
        size = gpu.most_bytes(report, _MOST) // largest * largest
        if not size:
            report.unknown("placement", f"others use this GPU, and {largest >> 20} MiB are too much of what is left")
            return
        control: dict[str, float] = {}
        with kernels.loaded(gpu, "placement", kit.KERNELS) as module:
            for title, place in _PLACES.items():
                if report.seconds_left() < 0:
                    report.skip(title, "no time was left for it")
                    continue
                with _memory(gpu, size, *place) as start:
                    found = _rates(gpu, report, module, start, size)
                control = control or found
                for work, rate in found.items():
                    ratio = f"{rate / control[work]:.3f} of {_CONTROL}'s" if title != _CONTROL and control[work] else ""
                    report.figure(f"{work}, {title}, {size / GIB:.3g} GiB", rate, "GB/s", ratio)
        report.check("placement", True, f"{size >> 20} MiB of each ran")


@contextlib.contextmanager
def _memory(gpu: Gpu, size: int, handle_size: int, shuffled: bool) -> Iterator[int]:
    if not handle_size:
        with gpu.segment(size) as start:
            yield start
        return
    with gpu.handles(size // handle_size, handle_size) as made:
        placed = list(made)
        if shuffled:
            random.Random(_SEED).shuffle(placed)
        with gpu.mapped(placed, handle_size) as start:
            yield start


def _rates(gpu: Gpu, report: StepReport, module: kernels.Module, start: int, size: int) -> dict[str, float]:
    """GB/s of a copy from one half of the range to the other, both counted, and of reads at random over all of it."""
    grid, half = gpu.attribute(MULTIPROCESSORS) * _BLOCKS_FOR_EACH_MULTIPROCESSOR, size // 2
    reading = grid * _BLOCKS_FOR_EACH_MULTIPROCESSOR
    with gpu.segment(4) as total, gpu.stream() as stream:
        gpu.call("cuMemsetD32Async", start, 1, size // 4, stream)
        halves = c_uint64(start + half), c_uint64(start), c_uint64(half // _VECTOR)
        copy = module.kernel("copy", grid, _THREADS, *halves)
        whole = c_uint64(start), c_uint64(size // _VECTOR), c_uint(_READS), c_uint64(total)
        gather = module.kernel("gather", reading, _THREADS, *whole)
        gathered = reading * _THREADS * _READS * _VECTOR
        return {
            "copy": _rate(gpu, report, stream, copy, size),
            "random reads of 16 bytes": _rate(gpu, report, stream, gather, gathered),
        }


def _rate(gpu: Gpu, report: StepReport, stream: int, kernel: kernels.Kernel, moved: int) -> float:
    """The median of some runs, after one that is not counted."""
    rates = []
    with gpu.event(timed=True) as start, gpu.event(timed=True) as end:
        for repeat in range(1 + report.rounds(_REPEATS, 2)):
            gpu.call("cuEventRecord", start, stream)
            kernel.launch(stream)
            gpu.call("cuEventRecord", end, stream)
            gpu.call("cuEventSynchronize", end)
            milliseconds = gpu.milliseconds(start, end)
            if repeat:
                rates.append(moved / max(milliseconds, 1e-6) / 1e6)
    return statistics.median(rates)
