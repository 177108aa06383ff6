"""P1: what each call of the driver takes, alone and beside running work, and whether it waits for that work."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from ctypes import byref, c_int, c_size_t, c_uint64

from . import kernels
from .costs import HANDLE_SIZES, CallTimes
from .driver import Driver
from .driver_functions import DriverError
from .memory_share import most_bytes
from .nvrtc import NvrtcError
from .step_report import Needs, StepReport
from .timing import Latencies, now, timed
from .virtual_memory import GIB, MIB, PAGE, access, export, handles, map_handles, reserved, segment, view

_MOST_HANDLES = 512
_SPIN_NANOSECONDS = 200_000_000
#: A call that takes half as long as the work that runs has waited for it.
_WAITED_MICROSECONDS = _SPIN_NANOSECONDS / 2000
_CONTENDED_HANDLES = 32
_MOST_COPIES = 1024
#: In the names of checks that are about speed alone.
DOES_NOT_WAIT = "does not wait for work that runs"


def run(report: StepReport) -> None:
    gpu = Driver()
    with gpu.primary_context():
        with report.part("latencies", DriverError):
            _latencies(gpu, report)
        with report.part("one unmap for several handles is one for each", DriverError):
            _unmap_at_once(gpu, report)
        with report.part("calls beside copies", DriverError):
            _beside_copies(gpu, report)
        with report.part("calls beside kernels", DriverError, NvrtcError), kernels.loaded(gpu, "timing") as module:
            _behind_work(gpu, report, module)
            _beside_launches(gpu, report, module)


# --- Latencies, idle.


def _latencies(gpu: Driver, report: StepReport) -> None:
    budget = most_bytes(gpu, report, 40 * GIB)
    times = CallTimes(gpu)
    times.floor(report.rounds(2000, 10))
    with view(gpu, 2 * PAGE), gpu.stream():
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
            for _ in range(max(2, min(report.rounds(100), report.rounds(2000) // count))):
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


def _without_export(gpu: Driver, report: StepReport, budget: int) -> None:
    """R11: whether handles that others could open cost more."""
    if problem := export(gpu).problem:
        report.skip("memory that others can open", f"the driver says that it can, and it fails: {problem}")
    medians = {}
    for exported in (True, False):
        times = CallTimes(gpu)
        count = max(1, min(64, budget // PAGE))
        for _ in range(report.rounds(10, 2)):
            with times.handles(count, PAGE, exported) as made:
                times.map_and_unmap(made, PAGE)
        for call, size, many, found in times.all():
            report.detail(call, exported=exported, handle_bytes=size, handles=many, microseconds=found.as_json())
            medians[call, exported] = found.p50
    for call in ("create", "set_access", "unmap"):
        report.figure(f"{call}, exportable to not", medians[call, True] / max(0.001, medians[call, False]), "times")


def _unmap_at_once(gpu: Driver, report: StepReport) -> None:
    """What the allocator relies on: one call undoes several mappings, and nothing of them is left."""
    count, name = 8, "one unmap for several handles is one for each"
    free = {}
    for several in (1, count):
        with handles(gpu, count, PAGE) as made, reserved(gpu, count * PAGE) as start:
            for _ in range(2):  # what was left of the first mapping would make the second fail
                map_handles(gpu, start, made, PAGE)
                for place in range(0, count, several):
                    gpu.call("cuMemUnmap", start + place * PAGE, several * PAGE)
        free[several], _ = gpu.memory_info()
    kept = free[1] - free[count]
    # Where others come and go, what is free says nothing of us.
    nothing_kept = kept < count * PAGE or not report.fills_the_device
    report.check(name, nothing_kept, f"{count} pages were mapped again after either; {kept} bytes stayed in use")


# --- Beside work.


def _behind_work(gpu: Driver, report: StepReport, module: kernels.Module) -> None:
    """R3: each kind of call while a kernel runs that has nothing to do with its memory."""
    duration = c_uint64(_SPIN_NANOSECONDS)
    spin = module.kernel("spin", 1, 1, duration)
    with gpu.stream() as stream:
        for name, call in _each_call(gpu):
            found = []
            for _ in range(report.rounds(3)):
                spin.launch(stream)
                found.append(call())
                running = not gpu.is_done(stream)
                gpu.call("cuStreamSynchronize", stream)
                report.detail("behind a kernel", call=name, microseconds=found[-1], kernel_still_ran=running)
            waited = max(found) > _WAITED_MICROSECONDS
            report.figure(f"{name} behind a kernel of 200 ms", max(found), "µs", "waits for it" if waited else "")
            if name in ("map", "set_access", "unmap"):
                # cudaFree waits for the device, which is documented; these are what remapping relies on.
                said = f"{max(found):.0f} µs while a kernel ran for {_SPIN_NANOSECONDS / 1e6:.0f} ms"
                report.check(f"{name} {DOES_NOT_WAIT}", not waited, said, Needs.TIME)


def _each_call(gpu: Driver) -> Iterator[tuple[str, Callable[[], float]]]:
    """Calls that can be made again and again; each gives its microseconds."""

    def micro(name: str, *arguments: object) -> float:
        status, nanoseconds = timed(gpu.function(name), *arguments)
        gpu.check(name, status)
        return nanoseconds / 1000

    free, total, start = c_size_t(), c_size_t(), c_uint64()
    yield "memory_info", lambda: micro("cuMemGetInfo_v2", byref(free), byref(total))
    with handles(gpu, 1, PAGE) as made, reserved(gpu, PAGE) as page:
        steps = {
            "map": ("cuMemMap", page, PAGE, 0, made[0], 0),
            "set_access": ("cuMemSetAccess", page, PAGE, byref(access(gpu)), 1),
            "unmap": ("cuMemUnmap", page, PAGE),
        }
        for measured in steps:

            def mapped_once(measured: str = measured) -> float:
                taken = {name: micro(*call) for name, call in steps.items()}
                return taken[measured]

            yield measured, mapped_once

    def segment_once() -> tuple[float, float]:
        return micro("cuMemAlloc_v2", byref(start), 64 * MIB), micro("cuMemFree_v2", start.value)

    yield "malloc", lambda: segment_once()[0]
    yield "free", lambda: segment_once()[1]


def _remap(gpu: Driver, made: list[int], until: Callable[[], bool]) -> CallTimes:
    """Maps and unmaps the handles until told."""
    times = CallTimes(gpu)
    while not until():
        times.map_and_unmap(made, PAGE)
    return times


class _Copies:
    """Copies of other memory on a stream, as many as last longer than what is made beside them."""

    def __init__(self, gpu: Driver, stream: int, target: int, source: int, size: int) -> None:
        self._gpu, self._stream, self._arguments = gpu, stream, (target, source, size, stream)
        self._count = 1

    def last_through(self, work: Callable[[], None]) -> bool:
        """Does the work beside copies; whether they were under way from its beginning to its end. If they were not,
        they are more the next time."""
        for _ in range(self._count):
            self._gpu.call("cuMemcpyDtoDAsync_v2", *self._arguments)
        work()
        lasted = not self._gpu.is_done(self._stream)
        self._gpu.call("cuStreamSynchronize", self._stream)
        if not lasted:
            self._count = min(2 * self._count, _MOST_COPIES)
        return lasted


def _beside_copies(gpu: Driver, report: StepReport) -> None:
    """R3: with copies of other memory under way all the time."""
    size = max(PAGE, most_bytes(gpu, report, GIB) // 4 // PAGE * PAGE)
    times = CallTimes(gpu)
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(gpu.stream())
        source, target = (stack.enter_context(segment(gpu, size)) for _ in range(2))
        made = stack.enter_context(handles(gpu, _CONTENDED_HANDLES, PAGE))
        copies = _Copies(gpu, stream, target, source, size)
        rounds, busy = report.rounds(200, 2), 0
        for _ in range(rounds):
            beside = CallTimes(gpu)
            if copies.last_through(lambda beside=beside: beside.map_and_unmap(made, PAGE)):
                times.add(beside)
                busy += 1
    if not busy:
        say = report.not_shown if report.simulated else report.skip
        say("calls beside copies", f"no copies lasted as long as the calls, in {rounds} rounds")
    for call, size, count, found in times.all():
        report.detail(call, beside="copies", handle_bytes=size, handles=count, microseconds=found.as_json())
        if call in ("map", "set_access", "unmap"):
            said = f"p99 {found.p99 / count:.0f}, of calls for {count}; copies lasted through {busy} of {rounds} rounds"
            report.figure(f"{call} of a handle beside copies", found.p50 / count, "µs", said)


def _beside_launches(gpu: Driver, report: StepReport, module: kernels.Module) -> None:
    """R3: what a thread that launches kernels sees while another one maps and unmaps, or calls the driver for
    nothing, which shows what Python's own lock adds."""
    version, seconds = c_int(), min(2.0, 2.0 * report.share)
    with handles(gpu, _CONTENDED_HANDLES, PAGE) as made:

        def ask(until: Callable[[], bool]) -> None:
            while not until():
                gpu.call("cuDriverGetVersion", byref(version))

        quiet = _launch_latencies(gpu, module, seconds, ask)
        busy = _launch_latencies(gpu, module, seconds, lambda until: _remap(gpu, made, until))
    for name, found in (("quiet", quiet), ("remapping", busy)):
        report.detail("launches", beside=name, microseconds=found.as_json())
    report.figure("launch, p99, beside nothing", quiet.p99, "µs", f"worst {quiet.worst:.0f}")
    report.figure("launch, p99, beside remapping", busy.p99, "µs", f"worst {busy.worst:.0f}")


def _launch_latencies(
    gpu: Driver, module: kernels.Module, seconds: float, beside: Callable[[Callable[[], bool]], object]
) -> Latencies:
    """Of a thread that launches empty kernels while this one does `beside`."""
    found: list[int] = []
    problems: list[Exception] = []
    context = ctypes.c_void_p()
    gpu.call("cuCtxGetCurrent", byref(context))
    end = now() + int(seconds * 1e9)

    def launch() -> None:
        try:
            gpu.call("cuCtxSetCurrent", context)
            nothing = module.kernel("nothing", 1, 1)
            with gpu.stream() as stream:
                while now() < end:
                    began = now()
                    nothing.launch(stream)
                    found.append(now() - began)
                    if len(found) % 64 == 0:  # else what is measured is a full queue
                        gpu.call("cuStreamSynchronize", stream)
        except DriverError as error:
            problems.append(error)

    thread = threading.Thread(target=launch)
    thread.start()
    try:
        beside(lambda: not thread.is_alive())
    finally:
        thread.join()
    if problems:
        raise problems[0]
    return Latencies.of(found)
