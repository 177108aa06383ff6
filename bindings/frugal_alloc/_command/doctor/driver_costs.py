"""P1: what each call of the driver takes, alone and behind running work, and whether it waits for that work."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_size_t, c_uint64
from typing import Any

from . import kernels
from .costs import HANDLE_SIZES, CallTimes, timed
from .step import Needs, StepReport
from .virtual_memory import GIB, MIB, PAGE, Gpu, opened_gpu

_MOST_HANDLES = 512
_SPIN_NANOSECONDS = 200_000_000
#: A call that takes half as long as the work that runs has waited for it.
_WAITED_MICROSECONDS = _SPIN_NANOSECONDS / 2000
BEHIND_WORK = ("memory_info", "create", "map", "set_access", "unmap", "release", "malloc", "free")
#: In the names of checks that are about speed alone.
DOES_NOT_WAIT = "does not wait for work that runs"


def run(report: StepReport) -> None:
    with opened_gpu() as gpu:
        with report.part("latencies"):
            _latencies(gpu, report)
        with report.part("one unmap for several handles is one for each"):
            _unmap_at_once(gpu, report)
        with report.part("calls behind a kernel"), kernels.loaded(gpu, "timing") as module:
            _behind_work(gpu, report, module)


# --- Latencies, idle.


def _latencies(gpu: Gpu, report: StepReport) -> None:
    budget = gpu.most_bytes(report, 40 * GIB)
    times = CallTimes(gpu)
    times.floor(report.rounds(2000, 10))
    with gpu.view(2 * PAGE), gpu.stream():
        pass  # The first calls of each kind set the driver up.
    for size in HANDLE_SIZES:
        _sizes_and_counts(times, report, size, budget)
    times.segments([size for size in (*HANDLE_SIZES, GIB) if size <= budget], report.rounds(20, 2))
    times.small_calls(report.rounds(2000, 10))
    for call, size, count, found in times.all():
        report.detail(call, handle_bytes=size, handles=count, microseconds=found.as_json())
    report.driver_costs(times.costs())
    for name, cost in times.costs().items():
        report.figure(f"cost of {name}", cost, "µs", "without the floor of a call from Python")
    _one_gibibyte(report, times)
    _worst(report, times)
    _without_export(gpu, report, min(budget, GIB))
    made = sum(found.count for _, _, _, found in times.all())
    report.check("every call succeeded", True, f"{made} calls of {len(list(times.all()))} kinds")


def _sizes_and_counts(times: CallTimes, report: StepReport, size: int, budget: int) -> None:
    most = max(1, min(_MOST_HANDLES, budget // size))
    with times.handles(most, size) as made:
        count = 1
        while count <= most:
            for _ in range(max(2, min(report.rounds(50), report.rounds(1000) // count))):
                times.map_and_unmap(made[:count], size)
            count *= 2


def _one_gibibyte(report: StepReport, times: CallTimes) -> None:
    """What memory costs by the ways of getting it: ours, as PyTorch's expandable segments do, and cudaMalloc's."""
    for size in HANDLE_SIZES:
        counts = [count for call, of, count, _ in times.all() if (call, of) == ("set_access", size)]
        create, mapping = times.latencies("create", size), times.latencies("map", size)
        opening = times.latencies("set_access", size, max(counts))
        if create and mapping and opening:
            each = create.p50 + mapping.p50 + opening.p50 / max(counts)
            said = f"medians; {max(counts)} handles at once"
            report.figure(f"1 GiB by handles of {size // MIB} MiB", each * GIB / size / 1000, "ms", said)
    if whole := times.latencies("malloc", GIB):
        report.figure("1 GiB by cudaMalloc", whole.p50 / 1000, "ms", "median")


def _worst(report: StepReport, times: CallTimes) -> None:
    for call in ("create", "map", "set_access", "unmap", "memory_info"):
        size = 0 if call == "memory_info" else PAGE
        if found := times.latencies(call, size):
            report.figure(f"{call}, p99", found.p99, "µs", f"worst of {found.count}: {found.worst:.0f}")


def _without_export(gpu: Gpu, report: StepReport, budget: int) -> None:
    """Whether handles that others could open cost more."""
    if problem := gpu.export.problem:
        report.skip("memory that others can open", f"the driver says that it can, and it fails: {problem}")
    medians = {}
    for exported in (True, False):
        times = CallTimes(gpu)
        for _ in range(report.rounds(10, 2)):
            with times.handles(max(1, min(64, budget // PAGE)), PAGE, exported) as made:
                times.map_and_unmap(made, PAGE)
        for call, size, many, found in times.all():
            report.detail(call, exported=exported, handle_bytes=size, handles=many, microseconds=found.as_json())
            medians[call, exported] = found.p50
    for call in ("create", "set_access", "unmap"):
        report.figure(f"{call}, exportable to not", medians[call, True] / max(0.001, medians[call, False]), "times")


def _unmap_at_once(gpu: Gpu, report: StepReport) -> None:
    """What the allocator relies on: one call undoes several mappings, and nothing of them is left."""
    count, name = 8, "one unmap for several handles is one for each"
    free = {}
    for several in (1, count):
        with gpu.handles(count, PAGE) as made, gpu.reserved(count * PAGE) as start:
            for _ in range(2):  # what was left of the first mapping would make the second fail
                gpu.map_handles(start, made, PAGE)
                for place in range(0, count, several):
                    gpu.call("cuMemUnmap", start + place * PAGE, several * PAGE)
        free[several], _ = gpu.memory_info()
    kept = free[1] - free[count]
    # Where others come and go, what is free says nothing of us.
    nothing_kept = kept < count * PAGE or not report.fills_the_device
    report.check(name, nothing_kept, f"{count} pages were mapped again after either; {kept} bytes stayed in use")


# --- Beside work.


def _behind_work(gpu: Gpu, report: StepReport, module: kernels.Module) -> None:
    """Each kind of call while a kernel runs that has nothing to do with its memory. One call of each round alone:
    what waits for the kernel leaves an idle GPU to the calls after it."""
    spin = module.kernel("spin", 1, 1, c_uint64(_SPIN_NANOSECONDS))
    with gpu.stream() as stream, gpu.reserved(PAGE) as page:
        for alone in BEHIND_WORK:
            found = [_one_behind(gpu, spin, stream, page, alone) for _ in range(report.rounds(3))]
            report.detail("behind a kernel", call=alone, microseconds=found)
            waited = max(found) > _WAITED_MICROSECONDS
            report.figure(f"{alone} behind a kernel of 200 ms", max(found), "µs", "waits for it" if waited else "")
            if alone in ("map", "set_access", "unmap"):
                # cudaFree waits for the device, which is documented; these are what remapping relies on.
                said = f"{max(found):.0f} µs while a kernel ran for {_SPIN_NANOSECONDS / 1e6:.0f} ms"
                report.check(f"{alone} {DOES_NOT_WAIT}", not waited, said, Needs.TIME)


def _one_behind(gpu: Gpu, spin: kernels.Kernel, stream: int, page: int, alone: str) -> float:
    """The lives of a handle and of a segment, of whose calls this one, whose microseconds these are, meets a busy
    GPU."""
    handle, start, free, total = c_uint64(), c_uint64(), c_size_t(), c_size_t()
    asked, allowed, found = gpu.properties(), gpu.access(), 0.0
    calls: dict[str, Callable[[], tuple[Any, ...]]] = {
        "memory_info": lambda: ("cuMemGetInfo_v2", byref(free), byref(total)),
        "create": lambda: ("cuMemCreate", byref(handle), PAGE, byref(asked), 0),
        "map": lambda: ("cuMemMap", page, PAGE, 0, handle.value, 0),
        "set_access": lambda: ("cuMemSetAccess", page, PAGE, byref(allowed), 1),
        "unmap": lambda: ("cuMemUnmap", page, PAGE),
        "release": lambda: ("cuMemRelease", handle.value),
        "malloc": lambda: ("cuMemAlloc_v2", byref(start), 64 * MIB),
        "free": lambda: ("cuMemFree_v2", start.value),
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
