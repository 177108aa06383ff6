"""Virtual memory management: handles of physical memory, seen at pages of reserved ranges."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from . import driver
from .driver import Driver
from .driver_functions import Access, AllocationProperties, DriverError
from .step_report import StepReport

MIB = 1 << 20
GIB = 1 << 30
PAGE = 2 * MIB

#: Of what is free, so much may be taken where we are alone on the GPU, and where others are there.
_ALONE, _SHARED = 0.8, 0.25
_PINNED, _DEVICE, _READ_WRITE, _FILE_DESCRIPTOR = 1, 1, 3, 1


def most_bytes(gpu: Driver, report: StepReport, most: int) -> int:
    """For measurements that need no full device: `most`, or as much as is decent; on the simulated GPU, whose memory is
    this machine's, a little."""
    free, _ = gpu.memory_info()
    share = int(free * (_ALONE if report.fills_the_device else _SHARED))
    return min(most, share, (64 << 20) if report.simulated else share)


class Export(NamedTuple):
    """Who else can have memory: network cards, and other processes."""

    rdma: bool
    shareable: bool
    #: Of what the driver says it can and cannot: the error.
    problem: str = ""


@functools.cache
def export(gpu: Driver) -> Export:
    """The most that works here, in the order in which frugal_alloc tries; with a context current."""
    says = Export(gpu.has(driver.RDMA_WITH_VIRTUAL_MEMORY), gpu.has(driver.SHAREABLE_HANDLES))
    problem = ""
    for rdma in (True, False) if says.rdma else (False,):
        for shareable in (True, False) if says.shareable else (False,):
            try:
                _map_one_page(gpu, _properties(gpu, Export(rdma, shareable)))
            except DriverError as error:
                if error.is_out_of_memory:  # a full device says nothing
                    return says
                problem = problem or str(error)
            else:
                return Export(rdma, shareable, problem)
    return says


def properties(gpu: Driver, exported: bool = True) -> AllocationProperties:
    """As frugal_alloc and PyTorch's expandable segments ask for memory; not `exported`, without what lets other
    processes and network cards have it."""
    return _properties(gpu, export(gpu) if exported else Export(rdma=False, shareable=False))


def _properties(gpu: Driver, others: Export) -> AllocationProperties:
    asked = AllocationProperties(type=_PINNED)
    asked.location.type, asked.location.id = _DEVICE, gpu.device
    if others.shareable:
        asked.handle_types = _FILE_DESCRIPTOR
    if others.rdma:
        asked.flags.rdma = 1
    return asked


def _map_one_page(gpu: Driver, asked: AllocationProperties) -> None:
    with contextlib.ExitStack() as stack:
        handle = create(gpu, PAGE, asked)
        stack.callback(gpu.undo, "cuMemRelease", handle)
        stack.enter_context(mapped(gpu, [handle], PAGE))


def access(gpu: Driver) -> Access:
    allowed = Access(flags=_READ_WRITE)
    allowed.location.type, allowed.location.id = _DEVICE, gpu.device
    return allowed


def create(gpu: Driver, size: int, asked: AllocationProperties) -> int:
    return gpu.made("cuMemCreate", size, ctypes.byref(asked), 0)


@contextlib.contextmanager
def handles(gpu: Driver, count: int, size: int, exported: bool = True) -> Iterator[list[int]]:
    asked = properties(gpu, exported)
    made: list[int] = []
    try:
        for _ in range(count):
            made.append(create(gpu, size, asked))
        yield made
    finally:
        for handle in made:
            gpu.undo("cuMemRelease", handle)


@contextlib.contextmanager
def reserved(gpu: Driver, size: int) -> Iterator[int]:
    start = gpu.made("cuMemAddressReserve", size, PAGE, 0, 0)
    try:
        yield start
    finally:
        gpu.undo("cuMemAddressFree", start, size)


def map_handles(gpu: Driver, start: int, made: Sequence[int], size: int) -> None:
    """Side by side from `start`; to be read and written by this GPU. After an error none of them is mapped."""
    done = 0
    try:
        for place, handle in enumerate(made):
            gpu.call("cuMemMap", start + place * size, size, 0, handle, 0)
            done += 1
        gpu.call("cuMemSetAccess", start, len(made) * size, ctypes.byref(access(gpu)), 1)
    except DriverError:
        if done:
            gpu.undo("cuMemUnmap", start, done * size)
        raise


@contextlib.contextmanager
def mapped(gpu: Driver, made: Sequence[int], size: int) -> Iterator[int]:
    """The handles, side by side at addresses of their own."""
    with reserved(gpu, len(made) * size) as start:
        map_handles(gpu, start, made, size)
        try:
            yield start
        finally:
            gpu.undo("cuMemUnmap", start, len(made) * size)


@contextlib.contextmanager
def view(gpu: Driver, size: int, handle_size: int = PAGE) -> Iterator[int]:
    """New memory of handles of this size."""
    with handles(gpu, size // handle_size, handle_size) as made, mapped(gpu, made, handle_size) as start:
        yield start


@contextlib.contextmanager
def segment(gpu: Driver, size: int) -> Iterator[int]:
    """Memory as cudaMalloc gives it."""
    start = gpu.made("cuMemAlloc_v2", size)
    try:
        yield start
    finally:
        gpu.undo("cuMemFree_v2", start)
