"""P4: whether memory that was just released can be had at once, and where a process's addresses end."""

from __future__ import annotations

import ctypes
import json
import os
import threading
from ctypes import byref

from frugal_alloc._command.doctor.costs import Latencies, now, timed
from frugal_alloc._command.doctor.driver import INTEGRATED, AllocationProperties, DriverError
from frugal_alloc._command.doctor.processes import answer_of
from frugal_alloc._command.doctor.step import StepReport
from frugal_alloc._command.doctor.virtual_memory import GIB, MIB, PAGE, Gpu, opened_gpu

_RELEASED = "memory that was just released"
_HANDLE = 64 * MIB
_FILLED = 0.95
_TAKEN_AGAIN = 16 * GIB
_MOST_SECONDS_TO_TAKE = 5.0
_REST_SECONDS = 1.0
#: As frugal_alloc reserves on a GPU of 140 GiB.
_RESERVATION = 280 * GIB
_RESERVATIONS = 4096
_SECONDS_TO_RESERVE = 5.0


def run(report: StepReport) -> None:
    with opened_gpu() as gpu, report.part(_RELEASED):
        if not report.fills_the_device:
            report.skip(_RELEASED, "others hold memory of this GPU; --alone says that it may be full")
        elif gpu.has(INTEGRATED):
            report.skip(_RELEASED, "this GPU's memory is the host's, which has other uses for it")
        else:
            _take_again(gpu, report)
    with report.part("reservations"):
        _reserve_in_process(report)


# --- Memory that was just released: the driver clears it before somebody else may have it.


def _take_again(gpu: Gpu, report: StepReport) -> None:
    asked, (free, _) = gpu.properties(), gpu.memory_info()
    count = max(1, min(_TAKEN_AGAIN, free // 4) // _HANDLE)
    made: list[int] = []
    try:
        _take(gpu, report, asked, count, made, "before any was released")
        while (len(made) + 1) * _HANDLE <= free * _FILLED and report.seconds_left() > report.seconds / 2:
            made.append(gpu.create(_HANDLE, asked))
        for title, rest in (("released just now", 0.0), (f"released {_REST_SECONDS:.0f} s ago", _REST_SECONDS)):
            for _ in range(count):
                gpu.call("cuMemRelease", made.pop())
            threading.Event().wait(rest)
            _take(gpu, report, asked, count, made, title)
        filled = f"beside {(len(made) - count) * _HANDLE >> 20} MiB that were held, of {free >> 20} MiB that were free"
    finally:
        for handle in made:
            gpu.undo("cuMemRelease", handle)
    report.check(_RELEASED, True, f"{count * _HANDLE >> 20} MiB were taken again {filled}")


def _take(gpu: Gpu, report: StepReport, asked: AllocationProperties, count: int, made: list[int], title: str) -> None:
    """Takes so many handles; one that is refused is asked for again for a while."""
    began, refused, goal = now(), 0, len(made) + count
    while len(made) < goal:
        try:
            made.append(gpu.create(_HANDLE, asked))
        except DriverError as error:
            refused += 1
            if not error.is_out_of_memory or now() - began > _MOST_SECONDS_TO_TAKE * 1e9:
                raise
    said = f"{refused} calls were refused" if refused else ""
    report.figure(f"to take {count * _HANDLE / GIB:.3g} GiB {title}", (now() - began) / 1e6, "ms", said)


# --- Addresses.


def _reserve_in_process(report: StepReport) -> None:
    """In one of its own: the driver's addresses are the host's, too, which has none left then."""
    found = answer_of(_reserve, report.rounds(_RESERVATIONS, 8))
    count, ended = found["count"], found["refused"] or "no end was reached"
    report.detail("reservations", **found)
    report.check("reservations", count > 0, f"{count} of {_RESERVATION // GIB} GiB each: {ended}")
    report.figure("reservations of 280 GiB that a process had at once", count, "", ended)
    if count:
        took = found["microseconds"]
        report.figure("to reserve 280 GiB", took["p50"], "µs", f"p99 {took['p99']:.0f}, worst {took['worst']:.0f}")


def _reserve(most: int) -> None:
    found, starts, refused = [], [], ""
    with opened_gpu() as gpu:
        reserve, end = gpu.function("cuMemAddressReserve"), now() + int(_SECONDS_TO_RESERVE * 1e9)
        while len(starts) < most and now() < end and not refused:
            start = ctypes.c_uint64()
            status, nanoseconds = timed(reserve, byref(start), _RESERVATION, PAGE, 0, 0)
            if status:
                refused = gpu.error("cuMemAddressReserve", status).name
            else:
                starts.append(start.value)
                found.append(nanoseconds)
        took = Latencies.of(found).as_json() if found else None
        highest = max(starts, default=0) + _RESERVATION
        said = {"count": len(starts), "refused": refused, "microseconds": took, "highest_address": highest}
        # What is held goes back by the end of the process.
        os.write(1, json.dumps(said).encode())
        os._exit(0)
