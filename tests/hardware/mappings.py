"""P2: what else a driver makes of handles: a part of one, several addresses, reservations side by side.

frugal_alloc maps and unmaps whole handles. What is refused here costs it nothing; what is accepted says what a handle
that is partly used could still give. So each answer of the driver is one, and only wrong bytes are a failure.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import byref

from frugal_alloc._command.doctor.step import Needs, StepReport
from frugal_alloc._command.doctor.virtual_memory import MIB, PAGE, Gpu, opened_gpu

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
    with opened_gpu() as gpu:
        size = max(2 * PAGE, min(_HANDLE, gpu.most_bytes(report, _HANDLE) // PAGE * PAGE))
        for name, offset in ((PREFIX, 0), (OFFSET, PAGE)):
            with report.part(name):
                _part(gpu, report, name, size, offset)
        for place, start in zip(PLACES, (0, size // 2 // PAGE * PAGE, size - PAGE), strict=True):
            name = UNMAP_PART.format(place)
            with report.part(name):
                _unmap_part(gpu, report, name, size, start)
        with report.part(OPEN_BOTH):
            _adjacent(gpu, report)
        with report.part(TWICE):
            _twice(gpu, report)


def _refusal(gpu: Gpu, call: str, *arguments: object) -> str:
    """The driver's name for why it does not do this; "" if it did."""
    status = gpu.function(call)(*arguments)
    return gpu.error(call, status).name if status else ""


def _open(gpu: Gpu, start: int, size: int) -> str:
    return _refusal(gpu, "cuMemSetAccess", start, size, byref(gpu.access()), 1)


def _answer(report: StepReport, name: str, refusal: str, more: str = "") -> None:
    report.check(name, True, f"refused: {refusal}" if refusal else f"accepted{more}", Needs.DRIVER)


def _check_bytes(gpu: Gpu, report: StepReport, name: str, written: int, read: int) -> None:
    """What is written at one address is read at the other one."""
    gpu.call("cuMemsetD32Async", written, _PATTERN, _WORDS, None)
    gpu.call("cuCtxSynchronize")
    right = gpu.read(read, _WORDS).count(_PATTERN)
    report.check(f"{name}: its bytes", right == _WORDS, f"{right} of {_WORDS} words are the same", Needs.VALUES)


@contextlib.contextmanager
def _unmapped(gpu: Gpu, start: int, size: int) -> Iterator[None]:
    """At the end nothing of the range is mapped, of which nobody knows what still is."""
    try:
        yield
    finally:
        if _refusal(gpu, "cuMemUnmap", start, size):
            for page in range(start, start + size, PAGE):
                _refusal(gpu, "cuMemUnmap", page, PAGE)


def _part(gpu: Gpu, report: StepReport, name: str, size: int, offset: int) -> None:
    with gpu.handles(1, size) as made, gpu.mapped(made, size) as whole, gpu.reserved(PAGE) as elsewhere:
        refusal = _refusal(gpu, "cuMemMap", elsewhere, PAGE, offset, made[0], 0)
        if refusal:
            _answer(report, name, refusal)
            return
        try:
            refusal = _open(gpu, elsewhere, PAGE)
            _answer(report, name, refusal)
            if not refusal:
                _check_bytes(gpu, report, name, whole + offset, elsewhere)
        finally:
            gpu.undo("cuMemUnmap", elsewhere, PAGE)


def _unmap_part(gpu: Gpu, report: StepReport, name: str, size: int, place: int) -> None:
    with gpu.handles(1, size) as made, gpu.reserved(size) as start:
        gpu.map_handles(start, made, size)
        with _unmapped(gpu, start, size):
            refusal = _refusal(gpu, "cuMemUnmap", start + place, PAGE)
            word, other = ctypes.c_uint(), 0 if place else PAGE
            left = _refusal(gpu, "cuMemcpyDtoH_v2", byref(word), start + other, ctypes.sizeof(word))
            _answer(report, name, refusal, f"; the rest is {'gone, too' if left else 'still mapped'}")


@contextlib.contextmanager
def _side_by_side(gpu: Gpu, size: int) -> Iterator[tuple[int, ...]]:
    """Two reservations at addresses of our wish, which the driver need not follow."""
    with gpu.reserved(2 * size) as free:
        pass
    with contextlib.ExitStack() as stack:
        wishes = [("cuMemAddressReserve", size, PAGE, wish, 0) for wish in (free, free + size)]
        yield tuple(stack.enter_context(gpu.lent(reserve, "cuMemAddressFree", size)) for reserve in wishes)


def _adjacent(gpu: Gpu, report: StepReport) -> None:
    with gpu.handles(2, PAGE) as made, _side_by_side(gpu, PAGE) as (first, second):
        if second != first + PAGE:
            for name in (OPEN_BOTH, UNMAP_BOTH):
                report.skip(name, "the driver does not reserve addresses of our wish")
            return
        with _unmapped(gpu, first, 2 * PAGE):
            for start, handle in zip((first, second), made, strict=True):
                gpu.call("cuMemMap", start, PAGE, 0, handle, 0)
            _answer(report, OPEN_BOTH, _open(gpu, first, 2 * PAGE))
            _answer(report, UNMAP_BOTH, _refusal(gpu, "cuMemUnmap", first, 2 * PAGE))


def _twice(gpu: Gpu, report: StepReport) -> None:
    with gpu.handles(1, PAGE) as made, gpu.reserved(2 * PAGE) as start, _unmapped(gpu, start, 2 * PAGE):
        for address in (start, start + PAGE):
            gpu.call("cuMemMap", address, PAGE, 0, made[0], 0)
        refusal = _open(gpu, start, 2 * PAGE)
        if not refusal:
            _check_bytes(gpu, report, TWICE, start, start + PAGE)
            refusal = _refusal(gpu, "cuMemUnmap", start, 2 * PAGE)
        _answer(report, TWICE, refusal)
