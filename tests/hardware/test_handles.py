"""What else a driver makes of handles: a part of one, several addresses, reservations side by side.

frugal_alloc maps and unmaps whole handles. What is refused here costs it nothing; what is accepted says what a handle
that is partly used could still give. So each answer of the driver is a figure, and only wrong bytes are a failure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from frugal_alloc._command.doctor.driver import MIB, PAGE, Gpu

from hardware.on_gpu import most_bytes, shown

_WORDS, _PATTERN = 1024, 0x5EED
Record = Callable[[str, object], None]


def refusal(gpu: Gpu, call: str, *arguments: Any) -> str:
    """The driver's name for why it does not do this; "" if it did."""
    status, *_ = gpu.answer(call, *arguments)
    return gpu.error(call, status).name if status != 0 else ""


def opened(gpu: Gpu, start: int, size: int) -> str:
    return refusal(gpu, "cuMemSetAccess", start, size, gpu.access, 1)


def said(refused: str, more: str = "") -> str:
    return f"refused: {refused}" if refused else f"accepted{more}"


def shows_the_same(gpu: Gpu, written: int, read: int) -> None:
    """What is written at one address is read at the other one."""
    gpu.call("cuMemsetD32Async", written, _PATTERN, _WORDS, 0)
    gpu.call("cuStreamSynchronize", 0)
    right = gpu.read(read, _WORDS).count(_PATTERN)
    shown(right == _WORDS, f"{right} of {_WORDS} words are the same")


@contextlib.contextmanager
def unmapped(gpu: Gpu, start: int, size: int) -> Iterator[None]:
    """At the end nothing of the range is mapped, of which nobody knows what still is."""
    try:
        yield
    finally:
        if refusal(gpu, "cuMemUnmap", start, size):
            for page in range(start, start + size, PAGE):
                refusal(gpu, "cuMemUnmap", page, PAGE)


@pytest.fixture
def size(gpu: Gpu) -> int:
    return max(2 * PAGE, most_bytes(gpu, 64 * MIB) // PAGE * PAGE)


@pytest.mark.parametrize("offset", [0, PAGE])
def test_part_of_a_handle_at_a_second_address_shows_its_bytes_or_is_refused(
    offset: int, gpu: Gpu, size: int, record_property: Record
) -> None:
    with gpu.handles(1, size) as made, gpu.mapped(made, size) as whole, gpu.reserved(PAGE) as elsewhere:
        refused = refusal(gpu, "cuMemMap", elsewhere, PAGE, offset, made[0], 0)
        with unmapped(gpu, elsewhere, PAGE):
            refused = refused or opened(gpu, elsewhere, PAGE)
            record_property(f"2 MiB of a handle, {offset >> 20} MiB behind its beginning", said(refused))
            if not refused:
                shows_the_same(gpu, whole + offset, elsewhere)


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_part_of_a_mapping_is_unmapped_or_refused(place: str, gpu: Gpu, size: int, record_property: Record) -> None:
    page = {"first": 0, "middle": size // 2 // PAGE * PAGE, "last": size - PAGE}[place]
    with gpu.handles(1, size) as made, gpu.reserved(size) as start, unmapped(gpu, start, size):
        gpu.map_handles(start, made, size)
        refused = refusal(gpu, "cuMemUnmap", start + page, PAGE)
        left = not refusal(gpu, "cuMemsetD32Async", start + (0 if page else PAGE), 0, 1, 0)
        gpu.call("cuStreamSynchronize", 0)
        record_property(
            f"unmap the {place} page of a mapping", said(refused, f"; the rest is {'still mapped' if left else 'gone'}")
        )


def test_one_call_opens_and_unmaps_two_adjacent_reservations_or_is_refused(gpu: Gpu, record_property: Record) -> None:
    with gpu.reserved(2 * PAGE) as free:
        pass
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(gpu.handles(2, PAGE))
        first, second = (
            stack.enter_context(gpu.lent(gpu.reserve(PAGE, wish=wish), "cuMemAddressFree", PAGE))
            for wish in (free, free + PAGE)
        )
        if second != first + PAGE:
            pytest.skip("the driver does not reserve addresses of our wish")
        with unmapped(gpu, first, 2 * PAGE):
            for start, handle in zip((first, second), made, strict=True):
                gpu.call("cuMemMap", start, PAGE, 0, handle, 0)
            record_property("set_access over two adjacent reservations", said(opened(gpu, first, 2 * PAGE)))
            refused = refusal(gpu, "cuMemUnmap", first, 2 * PAGE)
            record_property("unmap over two adjacent reservations", said(refused))


def test_handle_at_two_addresses_of_a_reservation_shows_its_bytes_or_is_refused(
    gpu: Gpu, record_property: Record
) -> None:
    with gpu.handles(1, PAGE) as made, gpu.reserved(2 * PAGE) as start, unmapped(gpu, start, 2 * PAGE):
        for address in (start, start + PAGE):
            gpu.call("cuMemMap", address, PAGE, 0, made[0], 0)
        refused = opened(gpu, start, 2 * PAGE)
        record_property("one handle at two addresses, opened by one call", said(refused))
        if not refused:
            shows_the_same(gpu, start, start + PAGE)
