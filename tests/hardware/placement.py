"""P3: whether it matters to kernels where memory lies: cudaMalloc's, handles in order and shuffled, small and large."""

from __future__ import annotations

import contextlib
import random
import statistics
from collections.abc import Iterator
from ctypes import c_uint, c_uint64

from frugal_alloc._command.doctor import kernels
from frugal_alloc._command.doctor.driver import MULTIPROCESSORS, Driver
from frugal_alloc._command.doctor.driver_functions import DriverError
from frugal_alloc._command.doctor.nvrtc import NvrtcError
from frugal_alloc._command.doctor.step_report import StepReport
from frugal_alloc._command.doctor.virtual_memory import GIB, MIB, PAGE, handles, mapped, most_bytes, segment

from . import kit

_MOST = 64 * GIB
_REPEATS = 5
_SEED = 1
_THREADS = 256
_BLOCKS_FOR_EACH_MULTIPROCESSOR = 8
_READS = 64
_VECTOR = 16
_CONTROL = "cudaMalloc"
_PLACES = (
    (_CONTROL, 0, False),
    ("handles of 2 MiB in order", PAGE, False),
    ("handles of 2 MiB shuffled", PAGE, True),
    ("handles of 64 MiB shuffled", 64 * MIB, True),
)


def run(report: StepReport) -> None:
    gpu = Driver()
    with gpu.primary_context(), report.part("placement", DriverError, NvrtcError):
        largest = max(size for _, size, _ in _PLACES)
        size = most_bytes(gpu, report, _MOST) // largest * largest
        if not size:
            report.unknown("placement", f"others use this GPU, and {largest >> 20} MiB are too much of what is left")
            return
        control: dict[str, float] = {}
        with kernels.loaded(gpu, "placement", kit.KERNELS) as module:
            for title, handle_size, shuffled in _PLACES:
                if report.seconds_left() < 0:
                    report.skip(title, "no time was left for it")
                    continue
                found = _measure(gpu, report, module, size, handle_size, shuffled)
                control = control or found
                _say(report, title, size, found, control)
        report.check("placement", True, f"{size >> 20} MiB of each ran")


def _say(report: StepReport, title: str, size: int, found: dict[str, float], control: dict[str, float]) -> None:
    for work, rate in found.items():
        ratio = f"{rate / control[work]:.3f} of {_CONTROL}'s" if title != _CONTROL and control[work] else ""
        report.figure(f"{work}, {title}, {size / GIB:.3g} GiB", rate, "GB/s", ratio)


@contextlib.contextmanager
def _memory(gpu: Driver, size: int, handle_size: int, shuffled: bool) -> Iterator[int]:
    if not handle_size:
        with segment(gpu, size) as start:
            yield start
        return
    with handles(gpu, size // handle_size, handle_size) as made:
        placed = list(made)
        if shuffled:
            random.Random(_SEED).shuffle(placed)
        with mapped(gpu, placed, handle_size) as start:
            yield start


def _measure(
    gpu: Driver, report: StepReport, module: kernels.Module, size: int, handle_size: int, shuffled: bool
) -> dict[str, float]:
    """GB/s of a copy from one half of the range to the other, both counted, and of reads at random over all of it."""
    grid = gpu.attribute(MULTIPROCESSORS) * _BLOCKS_FOR_EACH_MULTIPROCESSOR
    with _memory(gpu, size, handle_size, shuffled) as start, segment(gpu, 4) as total, gpu.stream() as stream:
        gpu.call("cuMemsetD32Async", start, 1, size // 4, stream)
        half = size // 2
        copy = module.kernel("copy", grid, _THREADS, c_uint64(start + half), c_uint64(start), c_uint64(half // _VECTOR))
        gather = module.kernel(
            "gather",
            grid * _BLOCKS_FOR_EACH_MULTIPROCESSOR,
            _THREADS,
            c_uint64(start),
            c_uint64(size // _VECTOR),
            c_uint(_READS),
            c_uint64(total),
        )
        gathered = grid * _BLOCKS_FOR_EACH_MULTIPROCESSOR * _THREADS * _READS * _VECTOR
        works = {"copy": (copy, size), "random reads of 16 bytes": (gather, gathered)}
        return {name: _rate(gpu, report, stream, kernel, moved) for name, (kernel, moved) in works.items()}


def _rate(gpu: Driver, report: StepReport, stream: int, kernel: kernels.Kernel, moved: int) -> float:
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
