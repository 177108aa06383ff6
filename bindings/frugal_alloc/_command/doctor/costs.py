"""Times of the driver's calls on memory, streams and events: measured one call at a time, from Python.

Calling any function from Python takes about a microsecond, the floor; it is measured too, and taken off where a cost is
worked out, never where latencies are reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_int, c_size_t, c_uint64

from .processes import is_simulated
from .virtual_memory import MIB, PAGE, Gpu

now = time.perf_counter_ns

#: Of handles: ours, and that of PyTorch's expandable segments for large blocks, 20 MiB, among them.
HANDLE_SIZES = tuple(mebibytes * MIB for mebibytes in (2, 4, 8, 16, 20, 32, 64))

# How a cost of allocator/port/driver_cost_table.h is worked out of what was measured, by the name of the call.
_PER_HANDLE = ("map", "set_access", "unmap", "release")
_FOR_EACH_CALL = ("reserve", "free", "memory_info", "event_record", "event_query", "stream_wait")


@dataclasses.dataclass(frozen=True)
class Latencies:
    """Of one call made many times, in microseconds."""

    count: int
    p50: float
    p99: float
    worst: float

    @staticmethod
    def of(nanoseconds: Sequence[int]) -> Latencies:
        """At least one."""
        ordered = sorted(nanoseconds)
        at = [ordered[min(len(ordered) - 1, int(part * len(ordered)))] / 1000 for part in (0.5, 0.99)]
        return Latencies(len(ordered), at[0], at[1], ordered[-1] / 1000)

    def as_json(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in dataclasses.asdict(self).items()}


def timed(call: Callable[..., int], *arguments: object) -> tuple[int, int]:
    """The status of the call, and how long it took in nanoseconds."""
    began = now()
    status = call(*arguments)
    return status, now() - began


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The line through the points by least squares: where it begins, and how it rises."""
    places, heights = zip(*points, strict=True)
    if len(set(places)) < 2:
        return statistics.fmean(heights), 0.0
    rise, start = statistics.linear_regression(places, heights)
    return start, rise


class CallTimes:
    """Latencies by call and by what was asked of it."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._nanoseconds: dict[tuple[str, int, int], list[int]] = defaultdict(list)
        self._access = gpu.access()
        # On the simulated GPU, where a call takes no time, what its model says it would.
        self._clock = _modelled if is_simulated() else timed

    def latencies(self, call: str, size: int = 0, count: int = 1) -> Latencies | None:
        """Of the call for `count` handles of `size` bytes; None if it was never made."""
        measured = self._nanoseconds.get((call, size, count))
        return Latencies.of(measured) if measured else None

    def all(self) -> Iterator[tuple[str, int, int, Latencies]]:
        for (call, size, count), measured in self._nanoseconds.items():
            yield call, size, count, Latencies.of(measured)

    def _time(self, call: str, name: str, *arguments: object, size: int = 0, count: int = 1) -> None:
        status, nanoseconds = self._clock(self.gpu.function(name), *arguments)
        self._nanoseconds[call, size, count].append(nanoseconds)
        self.gpu.check(name, status)

    # --- What is measured.

    def floor(self, rounds: int) -> None:
        """A call in which the driver does next to nothing."""
        version = c_int()
        for _ in range(rounds):
            self._time("floor", "cuDriverGetVersion", byref(version))

    @contextlib.contextmanager
    def handles(self, count: int, size: int, exported: bool = True) -> Iterator[list[int]]:
        """Creates and releases them, timing each."""
        asked, made = self.gpu.properties(exported), []
        try:
            for _ in range(count):
                handle = c_uint64()
                self._time("create", "cuMemCreate", byref(handle), size, byref(asked), 0, size=size)
                made.append(handle.value)
            yield made
        finally:
            for handle in made:
                self._time("release", "cuMemRelease", handle, size=size)

    def map_and_unmap(self, made: Sequence[int], size: int) -> None:
        """Reserves, maps the handles one by one, opens them with one call, unmaps them with one, and unreserves."""
        start, whole, count = c_uint64(), len(made) * size, len(made)
        self._time("reserve", "cuMemAddressReserve", byref(start), whole, PAGE, 0, 0)
        for place, handle in enumerate(made):
            self._time("map", "cuMemMap", start.value + place * size, size, 0, handle, 0, size=size)
        opened = byref(self._access)
        self._time("set_access", "cuMemSetAccess", start.value, whole, opened, 1, size=size, count=count)
        self._time("unmap", "cuMemUnmap", start.value, whole, size=size, count=count)
        self._time("unreserve", "cuMemAddressFree", start.value, whole)

    def segments(self, sizes: Sequence[int], rounds: int) -> None:
        """cudaMalloc and cudaFree, the control."""
        for size in sizes:
            for _ in range(rounds):
                start = c_uint64()
                self._time("malloc", "cuMemAlloc_v2", byref(start), size, size=size)
                self._time("free", "cuMemFree_v2", start.value)

    def small_calls(self, rounds: int) -> None:
        """Free memory, events, and waits for them."""
        free, total = c_size_t(), c_size_t()
        with self.gpu.stream() as stream, self.gpu.stream() as other, self.gpu.event() as event:
            for _ in range(rounds):
                self._time("memory_info", "cuMemGetInfo_v2", byref(free), byref(total))
                self._time("event_record", "cuEventRecord", event, stream)
                self._time("stream_wait", "cuStreamWaitEvent", other, event, 0)
                self.gpu.call("cuEventSynchronize", event)
                self._time("event_query", "cuEventQuery", event)

    # --- What follows.

    def costs(self) -> dict[str, float]:
        """In microseconds, by the names of allocator/port/driver_cost_table.h: medians, without the floor of a call."""
        floor = self._median("floor")
        found = {}
        for cost, call in (("create", "create"), ("malloc", "malloc")):
            points = [(size / MIB, self._median(call, size) - floor) for size in self._sizes(call)]
            base, each = slope(points)
            found[cost], found[f"{cost}_mebibyte"] = max(0.0, base), max(0.0, each)
        for call in _PER_HANDLE:
            found[call] = max(0.0, self._each_handle(call, PAGE, floor))
        for call in _FOR_EACH_CALL:
            found[call] = max(0.0, self._median(call) - floor)
        return found

    def _median(self, call: str, size: int = 0, count: int = 1) -> float:
        found = self.latencies(call, size, count)
        assert found is not None, f"{call} of {size} was not measured"
        return found.p50

    def _sizes(self, call: str) -> list[int]:
        return sorted({size for name, size, _ in self._nanoseconds if name == call})

    def _each_handle(self, call: str, size: int, floor: float) -> float:
        """For a handle, of the calls for the most handles that were measured."""
        most = max(count for name, of, count in self._nanoseconds if (name, of) == (call, size))
        return (self._median(call, size, most) - floor) / most


def _modelled(call: Callable[..., int], *arguments: object) -> tuple[int, int]:
    model = ctypes.CDLL(None).frugal_sim_driver_ns
    model.restype = c_uint64
    before = model()
    status = call(*arguments)
    return status, model() - before


def to_text(costs: dict[str, float], where: str) -> str:
    """A file for the setting driver_costs: "name microseconds" a line, after comments that say where."""
    lines = [f"# {line}" for line in where.splitlines()]
    return "\n".join([*lines, *(f"{name} {cost:.3f}" for name, cost in costs.items())]) + "\n"
