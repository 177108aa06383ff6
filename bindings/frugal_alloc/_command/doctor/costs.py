"""What each call of the driver takes, alone and behind running work, and whether it waits for that work.

Times are of one call at a time, from Python. Calling any function from Python takes about a microsecond, the floor; it
is measured too, and taken off where a cost is worked out, never where latencies are reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from .driver import ADDRESS, GIB, KERNELS, MIB, PAGE, Export, Gpu, opened_gpu
from .machine import is_simulated
from .probe import TIME, Report

now = time.perf_counter_ns
#: Of handles: ours, and that of PyTorch's expandable segments for large blocks, 20 MiB, among them.
HANDLE_SIZES = tuple(mebibytes * MIB for mebibytes in (2, 4, 8, 16, 20, 32, 64))
#: In the names of checks that are about speed alone.
DOES_NOT_WAIT = "does not wait for work that runs"

_MOST_HANDLES = 512
_SPIN_NANOSECONDS = 200_000_000
#: A call that takes half as long as the work that runs has waited for it.
_WAITED_MICROSECONDS = _SPIN_NANOSECONDS / 2000
# How a cost of allocator/port/driver_cost_table.h is worked out of what was measured, by the name of the call.
_PER_HANDLE = ("map", "set_access", "unmap", "release")
_FOR_EACH_CALL = ("reserve", "free", "memory_info", "event_record", "event_query", "stream_wait")


class CallTimes:
    """Latencies by call, size of the handle, and how many handles the call was for."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._nanoseconds: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        # On the simulated GPU, where a call takes no time, what its model says it would.
        self._clock = _modelled() if is_simulated() else now

    def call(self, key: str, name: str, *arguments: Any, size: int = 0, count: int = 1) -> Any:
        function = getattr(self.gpu.cuda, name)
        began = self._clock()
        answer = function(*arguments)
        self._nanoseconds[key, size, count].append(self._clock() - began)
        return self.gpu.check(name, answer)

    def microseconds(self, key: str, size: int = 0, count: int = 1) -> float:
        """Of the call, the median."""
        return statistics.median_high(self._nanoseconds[key, size, count]) / 1000

    @contextlib.contextmanager
    def handles(self, count: int, size: int, export: Export | None = None) -> Iterator[list[int]]:
        """Creates and releases them."""
        asked, made = self.gpu.properties(export), []
        try:
            for _ in range(count):
                made.append(int(self.call("create", "cuMemCreate", size, asked, 0, size=size)))
            yield made
        finally:
            for handle in made:
                self.call("release", "cuMemRelease", handle, size=size)

    def map_and_unmap(self, made: Sequence[int], size: int) -> None:
        """Reserves, maps the handles one by one, opens them with one call, unmaps them with one, and unreserves."""
        whole, count = len(made) * size, len(made)
        start = int(self.call("reserve", "cuMemAddressReserve", whole, PAGE, 0, 0))
        for place, handle in enumerate(made):
            self.call("map", "cuMemMap", start + place * size, size, 0, handle, 0, size=size)
        self.call("set_access", "cuMemSetAccess", start, whole, self.gpu.access, 1, size=size, count=count)
        self.call("unmap", "cuMemUnmap", start, whole, size=size, count=count)
        self.call("unreserve", "cuMemAddressFree", start, whole)

    def costs(self) -> dict[str, float]:
        """In microseconds, by the names of allocator/port/driver_cost_table.h: medians, without the floor of a call."""
        floor, found = self.microseconds("floor"), {}
        for call in ("create", "malloc"):
            sizes = sorted({size for name, size, _ in self._nanoseconds if name == call})
            base, each = slope([(size / MIB, self.microseconds(call, size) - floor) for size in sizes])
            found[call], found[f"{call}_mebibyte"] = max(0.0, base), max(0.0, each)
        for call in _PER_HANDLE:
            most = max(count for name, size, count in self._nanoseconds if (name, size) == (call, PAGE))
            found[call] = max(0.0, (self.microseconds(call, PAGE, most) - floor) / most)
        for call in _FOR_EACH_CALL:
            found[call] = max(0.0, self.microseconds(call) - floor)
        return found


def _modelled() -> Any:
    model = ctypes.CDLL(None).frugal_sim_driver_ns
    model.restype = ctypes.c_uint64
    return model


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The line through the points by least squares: where it begins, and how it rises."""
    places, heights = zip(*points, strict=True)
    if len(set(places)) < 2:
        return statistics.fmean(heights), 0.0
    rise, start = statistics.linear_regression(places, heights)
    return start, rise


def to_text(costs: dict[str, float], where: str) -> str:
    """A file for the setting driver_costs: "name microseconds" a line, after comments that say where."""
    lines = [f"# {line}" for line in where.splitlines()]
    return "\n".join([*lines, *(f"{name} {cost:.3f}" for name, cost in costs.items())]) + "\n"


# --- The probe.


def run(report: Report) -> None:
    with opened_gpu() as gpu:
        with report.part("every call succeeded"):
            _measure(gpu, report)
        with report.part("one unmap for several handles is one for each"):
            _unmap_at_once(gpu, report)
        with report.part("calls behind a kernel"):
            _behind_work(gpu, report)


def _measure(gpu: Gpu, report: Report) -> None:
    budget = report.most_bytes(gpu, 40 * GIB)
    times = CallTimes(gpu)
    for _ in range(report.rounds(2000)):
        times.call("floor", "cuDriverGetVersion")
    with gpu.handles(2, PAGE) as made, gpu.mapped(made, PAGE), gpu.stream():
        pass  # The first calls of each kind set the driver up.
    for size in HANDLE_SIZES:
        with times.handles(max(1, min(_MOST_HANDLES, budget // size)), size) as made:
            for _ in range(report.rounds(20) if size == PAGE else 0):
                times.map_and_unmap(made, size)
    for size in (size for size in (*HANDLE_SIZES, GIB) if size <= budget):
        for _ in range(report.rounds(20)):
            times.call("free", "cuMemFree", times.call("malloc", "cuMemAlloc", size, size=size))
    with gpu.stream() as stream, gpu.stream() as other, gpu.event() as event:
        for _ in range(report.rounds(2000)):
            times.call("memory_info", "cuMemGetInfo")
            times.call("event_record", "cuEventRecord", event, stream)
            times.call("stream_wait", "cuStreamWaitEvent", other, event, 0)
            gpu.call("cuEventSynchronize", event)
            times.call("event_query", "cuEventQuery", event)
    report.driver_costs(times.costs())
    report.check("every call succeeded", True, "their costs are known")


def _unmap_at_once(gpu: Gpu, report: Report) -> None:
    """What the allocator relies on: one call undoes several mappings, and nothing of them is left."""
    count = 8
    for several in (1, count):
        with gpu.handles(count, PAGE) as made, gpu.reserved(count * PAGE) as start:
            for _ in range(2):  # what was left of the first mapping would make the second fail
                gpu.map_handles(start, made, PAGE)
                for place in range(0, count, several):
                    gpu.call("cuMemUnmap", start + place * PAGE, several * PAGE)
    report.check("one unmap for several handles is one for each", True, f"{count} pages were mapped again after either")


def _behind_work(gpu: Gpu, report: Report) -> None:
    """Each kind of call while a kernel runs that has nothing to do with its memory. One call of each round alone:
    what waits for the kernel leaves an idle GPU to the calls after it."""
    with gpu.module(KERNELS / "timing.cu") as module, gpu.stream() as stream, gpu.reserved(PAGE) as page:
        spin, asked = gpu.kernel(module, "spin", 1, 1, ADDRESS), gpu.properties()

        def one_round(alone: str) -> float:
            """The lives of a handle and of a segment, of whose calls this one meets a busy GPU."""
            made, found = 0, 0.0
            for name, call, *arguments in (
                ("memory_info", "cuMemGetInfo"),
                ("create", "cuMemCreate", PAGE, asked, 0),
                ("map", "cuMemMap", page, PAGE, 0, "made", 0),
                ("set_access", "cuMemSetAccess", page, PAGE, gpu.access, 1),
                ("unmap", "cuMemUnmap", page, PAGE),
                ("release", "cuMemRelease", "made"),
                ("malloc", "cuMemAlloc", 64 * MIB),
                ("free", "cuMemFree", "made"),
            ):
                if name == alone:
                    gpu.launch(spin, stream, _SPIN_NANOSECONDS)
                began = now()
                answer = gpu.call(call, *(made if each == "made" else each for each in arguments))
                found = (now() - began) / 1000 if name == alone else found
                made = answer if name in ("create", "malloc") else made
            gpu.call("cuStreamSynchronize", stream)
            return found

        for alone in ("memory_info", "create", "map", "set_access", "unmap", "release", "malloc", "free"):
            most = max(one_round(alone) for _ in range(report.rounds(3)))
            report.figure(f"{alone} behind a kernel of 200 ms", most, "µs")
            if alone in ("map", "set_access", "unmap"):
                # cudaFree waits for the device, which is documented; these are what remapping relies on.
                said = f"{most:.0f} µs while a kernel ran for {_SPIN_NANOSECONDS / 1e6:.0f} ms"
                report.check(f"{alone} {DOES_NOT_WAIT}", most <= _WAITED_MICROSECONDS, said, TIME)
