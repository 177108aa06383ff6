"""P1: what remapping costs by the size of handles, behind a kernel, to a kernel, and beside other processes."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_uint64
from typing import Any

from . import kernels
from .child import end_with_parent
from .costs import CallTimes
from .driver import COMPUTE_MODE, MULTIPROCESSORS, Driver
from .driver_functions import DriverError
from .memory_share import most_bytes
from .nvrtc import NvrtcError
from .step_report import StepFailed, StepReport
from .timing import Latencies, now, timed
from .virtual_memory import GIB, MIB, PAGE, access, handles, properties, reserved, segment

HANDLE_SIZES = tuple(mebibytes * MIB for mebibytes in (4, 8, 16, 32))
CALLS_BY_THEMSELVES = ("create", "map", "set_access", "unmap", "release")
PROCESSES = (1, 2, 4, 8)
_MOST_HANDLES, _REMAPPED = 64, 32
_SPIN_NANOSECONDS = 200_000_000
_WAITED_MICROSECONDS = _SPIN_NANOSECONDS / 2000
_THREADS, _VECTOR = 256, 16
_BLOCKS_FOR_EACH_MULTIPROCESSOR = 8
#: What the driver takes for a process, roughly.
_CONTEXT_BYTES = 768 * MIB
_SECONDS_TOGETHER = 1.0


def run(report: StepReport) -> None:
    gpu = Driver()
    with gpu.primary_context():
        with report.part("sizes of handles", DriverError):
            _sizes(gpu, report)
        with report.part("calls behind a kernel", DriverError, NvrtcError), kernels.loaded(gpu, "timing") as timing:
            _behind_a_kernel(gpu, report, timing.kernel("spin", 1, 1, c_uint64(_SPIN_NANOSECONDS)))
        with report.part("a kernel beside remapping", DriverError, NvrtcError):
            _beside_a_kernel(gpu, report)
        with report.part("processes at once", DriverError, StepFailed):
            _processes(gpu, report)


# --- By the size of handles.


def _sizes(gpu: Driver, report: StepReport) -> None:
    budget = most_bytes(gpu, report, 4 * GIB)
    for size in HANDLE_SIZES:
        times, count = CallTimes(gpu), max(2, min(_MOST_HANDLES, budget // size))
        for _ in range(report.rounds(20, 2)):
            with times.handles(count, size) as made:
                times.map_and_unmap(made, size)
                for handle in made:
                    times.map_and_unmap([handle], size)
        medians = {}
        for call, of, many, found in times.all():
            report.detail(call, handle_bytes=of, handles=many, microseconds=found.as_json())
            medians[call, many] = found.p50 / many
        for call in ("create", "set_access", "unmap"):
            for many in (1,) if call == "create" else (1, count):
                how = f", one call for {many}" if many > 1 else ""
                report.figure(f"{call} of a handle of {size // MIB} MiB{how}", medians[call, many], "µs")


# --- Behind a kernel that has nothing to do with the memory.


def _behind_a_kernel(gpu: Driver, report: StepReport, spin: kernels.Kernel) -> None:
    """One call of each round alone: what waits for the kernel leaves an idle GPU to the calls after it."""
    with gpu.stream() as stream, reserved(gpu, PAGE) as page:
        for alone in CALLS_BY_THEMSELVES:
            found = [_one_behind(gpu, spin, stream, page, alone) for _ in range(report.rounds(3))]
            report.detail("by itself behind a kernel", call=alone, microseconds=found)
            said = "waits for it" if max(found) > _WAITED_MICROSECONDS else ""
            report.figure(f"{alone} by itself behind a kernel of 200 ms", max(found), "µs", said)


def _one_behind(gpu: Driver, spin: kernels.Kernel, stream: int, page: int, alone: str) -> float:
    """A handle's life of calls, of which this one, whose microseconds these are, meets a busy GPU."""
    handle, asked, allowed, found = c_uint64(), properties(gpu), access(gpu), 0.0
    calls: dict[str, Callable[[], tuple[Any, ...]]] = {
        "create": lambda: ("cuMemCreate", byref(handle), PAGE, byref(asked), 0),
        "map": lambda: ("cuMemMap", page, PAGE, 0, handle.value, 0),
        "set_access": lambda: ("cuMemSetAccess", page, PAGE, byref(allowed), 1),
        "unmap": lambda: ("cuMemUnmap", page, PAGE),
        "release": lambda: ("cuMemRelease", handle.value),
    }
    for name, arguments in calls.items():
        call, *rest = arguments()
        if name == alone:
            spin.launch(stream)
        status, nanoseconds = timed(gpu.function(call), *rest)
        gpu.check(call, status)
        if name == alone:
            found = nanoseconds / 1000
            gpu.call("cuStreamSynchronize", stream)
    return found


# --- What a kernel sees of it.


def _beside_a_kernel(gpu: Driver, report: StepReport) -> None:
    size = max(PAGE, most_bytes(gpu, report, 4 * GIB) // 4 // PAGE * PAGE)
    grid = gpu.attribute(MULTIPROCESSORS) * _BLOCKS_FOR_EACH_MULTIPROCESSOR
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        timing, placement = enter(kernels.loaded(gpu, "timing")), enter(kernels.loaded(gpu, "placement"))
        source, target, stream = enter(segment(gpu, size)), enter(segment(gpu, size)), enter(gpu.stream())
        made = enter(handles(gpu, _REMAPPED, PAGE))
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


def _copies(gpu: Driver, spin: kernels.Kernel, copy: kernels.Kernel, stream: int, repeats: int) -> tuple[float, float]:
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
def _remapping(gpu: Driver, made: list[int]) -> Iterator[CallTimes]:
    """Another thread maps and unmaps the handles all the while. Its times are whole after the block."""
    context, times, problems = ctypes.c_void_p(), CallTimes(gpu), []
    gpu.call("cuCtxGetCurrent", byref(context))
    began, enough = threading.Event(), threading.Event()

    def remap() -> None:
        try:
            gpu.call("cuCtxSetCurrent", context)
            while not enough.is_set():
                times.map_and_unmap(made, PAGE)
                began.set()
        except DriverError as error:
            problems.append(error)
        finally:
            began.set()

    thread = threading.Thread(target=remap)
    thread.start()
    try:
        began.wait()
        yield times
    finally:
        enough.set()
        thread.join()
    if problems:
        raise problems[0]


# --- Several processes.


def _processes(gpu: Driver, report: StepReport) -> None:
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
        worst = max(one["p99"] for one in found)
        median = statistics.median(one["p50"] for one in found)
        report.figure(name.format(count), median, "µs", f"the worst p99 {worst:.0f}")
    report.check("processes at once", True, "all of them came to their end")


def _remap_together(count: int, seconds: float) -> list[dict[str, float]]:
    """Each process's latencies; they begin when all are ready."""
    command = [sys.executable, "-u", "-m", __name__, str(seconds), str(os.getpid())]
    with contextlib.ExitStack() as stack:
        children = []
        for _ in range(count):
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            child = stack.enter_context(subprocess.Popen(command, text=True, **pipes))
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


def _remap_when_told(seconds: float) -> None:
    gpu, found = Driver(), []
    with gpu.primary_context(), handles(gpu, 1, PAGE) as made:
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


if __name__ == "__main__":
    end_with_parent(int(sys.argv[2]))
    _remap_when_told(float(sys.argv[1]))
