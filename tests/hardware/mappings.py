"""P2: what else a driver makes of handles: a part of one, several addresses, reservations side by side.

frugal_alloc maps and unmaps whole handles. What is refused here costs it nothing; what is accepted says what a handle
that is partly used could still give. So each answer of the driver is one, and only wrong bytes are a failure.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import byref

from frugal_alloc._command.doctor.driver import Driver
from frugal_alloc._command.doctor.driver_functions import DriverError
from frugal_alloc._command.doctor.step_report import Needs, StepReport
from frugal_alloc._command.doctor.virtual_memory import (
    MIB,
    PAGE,
    access,
    handles,
    map_handles,
    mapped,
    most_bytes,
    reserved,
)

_HANDLE = 64 * MIB
_WORDS, _PATTERN = 1024, 0x5EED
PREFIX = "the first 2 MiB of a mapped handle, at a second address"
OFFSET = "2 MiB behind its beginning, at a second address"
UNMAP_PART = "unmap the {} page of a mapping"
PLACES = ("first", "middle", "last")
OPEN_BOTH = "set_access over two adjacent reservations"
UNMAP_BOTH = "unmap over two adjacent reservations"
TWICE = "one handle at two addresses of a reservation, opened and unmapped by one call"


def run(report: StepReport) -> None:
    gpu = Driver()
    with gpu.primary_context():
        size = max(2 * PAGE, min(_HANDLE, most_bytes(gpu, report, _HANDLE) // PAGE * PAGE))
        for name, offset in ((PREFIX, 0), (OFFSET, PAGE)):
            with report.part(name, DriverError):
                _part(gpu, report, name, size, offset)
        for place, start in zip(PLACES, (0, size // 2 // PAGE * PAGE, size - PAGE), strict=True):
            name = UNMAP_PART.format(place)
            with report.part(name, DriverError):
                _unmap_part(gpu, report, name, size, start)
        with report.part(OPEN_BOTH, DriverError):
            _adjacent(gpu, report)
        with report.part(TWICE, DriverError):
            _twice(gpu, report)


def _refusal(gpu: Driver, call: str, *arguments: object) -> str:
    """The driver's name for why it does not do this; "" if it did."""
    status = gpu.function(call)(*arguments)
    return gpu.error(call, status).name if status else ""


def _answer(report: StepReport, name: str, refusal: str, more: str = "") -> None:
    said = f"refused: {refusal}" if refusal else f"accepted{more}"
    report.check(name, True, said, Needs.DRIVER)


def _check_bytes(gpu: Driver, report: StepReport, name: str, written: int, read: int) -> None:
    """What is written at one address is read at the other one."""
    gpu.call("cuMemsetD32Async", written, _PATTERN, _WORDS, None)
    gpu.call("cuCtxSynchronize")
    right = gpu.read(read, _WORDS).count(_PATTERN)
    report.check(f"{name}: its bytes", right == _WORDS, f"{right} of {_WORDS} words are the same", Needs.VALUES)


def _part(gpu: Driver, report: StepReport, name: str, size: int, offset: int) -> None:
    with handles(gpu, 1, size) as made, mapped(gpu, made, size) as whole, reserved(gpu, PAGE) as elsewhere:
        refusal = _refusal(gpu, "cuMemMap", elsewhere, PAGE, offset, made[0], 0)
        if refusal:
            _answer(report, name, refusal)
            return
        try:
            refusal = _refusal(gpu, "cuMemSetAccess", elsewhere, PAGE, byref(access(gpu)), 1)
            _answer(report, name, refusal)
            if not refusal:
                _check_bytes(gpu, report, name, whole + offset, elsewhere)
        finally:
            gpu.undo("cuMemUnmap", elsewhere, PAGE)


def _unmap_part(gpu: Driver, report: StepReport, name: str, size: int, place: int) -> None:
    with handles(gpu, 1, size) as made, reserved(gpu, size) as start:
        map_handles(gpu, start, made, size)
        try:
            refusal = _refusal(gpu, "cuMemUnmap", start + place, PAGE)
            word, other = ctypes.c_uint(), 0 if place else PAGE
            left = _refusal(gpu, "cuMemcpyDtoH_v2", byref(word), start + other, ctypes.sizeof(word))
            _answer(report, name, refusal, f"; the rest is {'gone, too' if left else 'still mapped'}")
        finally:
            _unmap_whatever(gpu, start, size)


def _unmap_whatever(gpu: Driver, start: int, size: int) -> None:
    """Of a range of which nobody knows what is still mapped."""
    if _refusal(gpu, "cuMemUnmap", start, size):
        for page in range(start, start + size, PAGE):
            _refusal(gpu, "cuMemUnmap", page, PAGE)


@contextlib.contextmanager
def _side_by_side(gpu: Driver, size: int) -> Iterator[tuple[int, int]]:
    """Two reservations at addresses of our wish, which the driver need not follow."""
    with reserved(gpu, 2 * size) as free:
        pass
    starts: list[int] = []
    try:
        for wish in (free, free + size):
            starts.append(gpu.made("cuMemAddressReserve", size, PAGE, wish, 0))
        yield starts[0], starts[1]
    finally:
        for start in starts:
            gpu.undo("cuMemAddressFree", start, size)


def _adjacent(gpu: Driver, report: StepReport) -> None:
    with handles(gpu, 2, PAGE) as made, _side_by_side(gpu, PAGE) as (first, second):
        if second != first + PAGE:
            for name in (OPEN_BOTH, UNMAP_BOTH):
                report.skip(name, "the driver does not reserve addresses of our wish")
            return
        try:
            for start, handle in zip((first, second), made, strict=True):
                gpu.call("cuMemMap", start, PAGE, 0, handle, 0)
            _answer(report, OPEN_BOTH, _refusal(gpu, "cuMemSetAccess", first, 2 * PAGE, byref(access(gpu)), 1))
            _answer(report, UNMAP_BOTH, _refusal(gpu, "cuMemUnmap", first, 2 * PAGE))
        finally:
            _unmap_whatever(gpu, first, 2 * PAGE)


def _twice(gpu: Driver, report: StepReport) -> None:
    with handles(gpu, 1, PAGE) as made, reserved(gpu, 2 * PAGE) as start:
        try:
            for address in (start, start + PAGE):
                gpu.call("cuMemMap", address, PAGE, 0, made[0], 0)
            refusal = _refusal(gpu, "cuMemSetAccess", start, 2 * PAGE, byref(access(gpu)), 1)
            if not refusal:
                _check_bytes(gpu, report, TWICE, start, start + PAGE)
                refusal = _refusal(gpu, "cuMemUnmap", start, 2 * PAGE)
            _answer(report, TWICE, refusal)
        finally:
            _unmap_whatever(gpu, start, 2 * PAGE)
