"""Virtual memory management: handles of physical memory, seen at pages of reserved ranges."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .driver import RDMA_WITH_VIRTUAL_MEMORY, SHAREABLE_HANDLES, Access, AllocationProperties, Driver, DriverError
from .step import StepReport

MIB = 1 << 20
GIB = 1 << 30
PAGE = 2 * MIB

#: Of what is free, so much may be taken where we are alone on the GPU, and where others are there.
_ALONE, _SHARED = 0.8, 0.25
_PINNED, _DEVICE, _READ_WRITE, _FILE_DESCRIPTOR = 1, 1, 3, 1


class Export(NamedTuple):
    """Who else can have memory: network cards, and other processes."""

    rdma: bool
    shareable: bool
    #: Of what the driver says it can and cannot: the error.
    problem: str = ""


class Gpu(Driver):
    """A GPU, with its memory."""

    def most_bytes(self, report: StepReport, most: int) -> int:
        """For measurements that need no full device: `most`, or as much as is decent; on the simulated GPU, whose
        memory is this machine's, a little."""
        free, _ = self.memory_info()
        share = int(free * (_ALONE if report.fills_the_device else _SHARED))
        return min(most, share, (64 << 20) if report.simulated else share)

    # --- How it is asked for.

    @functools.cached_property
    def export(self) -> Export:
        """The most that works here, in the order in which frugal_alloc tries; with a context current."""
        says = Export(self.has(RDMA_WITH_VIRTUAL_MEMORY), self.has(SHAREABLE_HANDLES))
        problem = ""
        for rdma in (True, False) if says.rdma else (False,):
            for shareable in (True, False) if says.shareable else (False,):
                try:
                    self._map_one_page(self._properties(rdma, shareable))
                except DriverError as error:
                    if error.is_out_of_memory:  # a full device says nothing
                        return says
                    problem = problem or str(error)
                else:
                    return Export(rdma, shareable, problem)
        return says

    def properties(self, exported: bool = True) -> AllocationProperties:
        """As frugal_alloc and PyTorch's expandable segments ask for memory; not `exported`, without what lets other
        processes and network cards have it."""
        return self._properties(self.export.rdma, self.export.shareable) if exported else self._properties(False, False)

    def _properties(self, rdma: bool, shareable: bool) -> AllocationProperties:
        asked = AllocationProperties(type=_PINNED)
        asked.location.type, asked.location.id = _DEVICE, self.device
        if shareable:
            asked.handle_types = _FILE_DESCRIPTOR
        if rdma:
            asked.flags.rdma = 1
        return asked

    def _map_one_page(self, asked: AllocationProperties) -> None:
        create = ("cuMemCreate", PAGE, ctypes.byref(asked), 0)
        with self.lent(create, "cuMemRelease") as handle, self.mapped([handle], PAGE):
            pass

    def access(self) -> Access:
        allowed = Access(flags=_READ_WRITE)
        allowed.location.type, allowed.location.id = _DEVICE, self.device
        return allowed

    # --- Handles, addresses, and both.

    def create(self, size: int, asked: AllocationProperties) -> int:
        return self.made("cuMemCreate", size, ctypes.byref(asked), 0)

    @contextlib.contextmanager
    def handles(self, count: int, size: int, exported: bool = True) -> Iterator[list[int]]:
        asked = self.properties(exported)
        made: list[int] = []
        try:
            for _ in range(count):
                made.append(self.create(size, asked))
            yield made
        finally:
            for handle in made:
                self.undo("cuMemRelease", handle)

    def reserved(self, size: int) -> contextlib.AbstractContextManager[int]:
        return self.lent(("cuMemAddressReserve", size, PAGE, 0, 0), "cuMemAddressFree", size)

    def map_handles(self, start: int, made: Sequence[int], size: int) -> None:
        """Side by side from `start`; to be read and written by this GPU. After an error none of them is mapped."""
        done = 0
        try:
            for place, handle in enumerate(made):
                self.call("cuMemMap", start + place * size, size, 0, handle, 0)
                done += 1
            self.call("cuMemSetAccess", start, len(made) * size, ctypes.byref(self.access()), 1)
        except DriverError:
            if done:
                self.undo("cuMemUnmap", start, done * size)
            raise

    @contextlib.contextmanager
    def mapped(self, made: Sequence[int], size: int) -> Iterator[int]:
        """The handles, side by side at addresses of their own."""
        with self.reserved(len(made) * size) as start:
            self.map_handles(start, made, size)
            try:
                yield start
            finally:
                self.undo("cuMemUnmap", start, len(made) * size)

    @contextlib.contextmanager
    def view(self, size: int, handle_size: int = PAGE) -> Iterator[int]:
        """New memory of handles of this size."""
        with self.handles(size // handle_size, handle_size) as made, self.mapped(made, handle_size) as start:
            yield start

    def segment(self, size: int) -> contextlib.AbstractContextManager[int]:
        """Memory as cudaMalloc gives it."""
        return self.lent(("cuMemAlloc_v2", size), "cuMemFree_v2")


@contextlib.contextmanager
def opened_gpu() -> Iterator[Gpu]:
    """The first GPU, with its primary context current in this thread for the block."""
    gpu = Gpu()
    with gpu.primary_context():
        yield gpu
