"""What puts GPU memory of PyTorch's own allocator to sleep today, written out by hand: whole segments, one by one.

torch_memory_saver (at 02ad8f8) and vLLM's sleep mode (at 010c211) have pools of PyTorch's allocator take their segments
from a function of theirs, which maps one handle of the driver for each. To sleep copies each segment into pinned memory
that is made for it, waits for the copy, and gives the handle back.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Iterator

import torch

PAGE = 2 << 20


class _Properties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of GPU 0."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("type", "handle_types", "location_type", "location")),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    """CUmemAccessDesc: GPU 0 reads and writes."""

    _fields_ = tuple((name, ctypes.c_int) for name in ("location_type", "location", "flags"))


@dataclasses.dataclass
class Segment:
    tag: str
    size: int
    handle: ctypes.c_uint64 | None  # None: it sleeps
    copy: ctypes.c_void_p | None = None  # in pinned memory


class Segments:
    """Regions whose segments sleep and wake by their tag.

    Args:
        gives_back_empty: at the end of a region segments with nothing in them go back, as vLLM has it. Otherwise they
            stay, as the allocator keeps them, and are copied with the others.
    """

    def __init__(self, gives_back_empty: bool) -> None:
        # First, so that it is the first to go: then segments are given back.
        self._pools: list[tuple[str, torch.cuda.MemPool]] = []
        self.segments: dict[int, Segment] = {}
        self._gives_back_empty = gives_back_empty
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.partition('.')[0]}")
        self._tag = ""
        allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        self._functions = allocate(self._allocate), free(self._free)
        addresses = (ctypes.cast(one, ctypes.c_void_p).value for one in self._functions)
        self._allocator = torch._C._cuda_customAllocator(*addresses)

    @contextlib.contextmanager
    def region(self, tag: str) -> Iterator[None]:
        """What is allocated in it sleeps and wakes by this tag."""
        self._tag = tag
        pool = self._pool(tag)
        with torch.cuda.use_mem_pool(pool):
            yield
        if self._gives_back_empty:
            torch.cuda.synchronize()
            for segment in pool.snapshot():
                if segment["allocated_size"] == 0:
                    self._let_go(segment["address"], self.segments.pop(segment["address"]))

    def _pool(self, tag: str) -> torch.cuda.MemPool:
        """The tag's, or where empty segments go behind the allocator's back one that will not hand them out."""
        known = dict(self._pools)
        if self._gives_back_empty or tag not in known:
            self._pools.append((tag, torch.cuda.MemPool(self._allocator)))
            return self._pools[-1][1]
        return known[tag]

    def sleep(self, tags: tuple[str, ...], drop: tuple[str, ...] = ()) -> int:
        """Returns the bytes that were copied: all of `tags`, nothing of `drop`."""
        copied = 0
        torch.cuda.synchronize()
        for address, segment in self.segments.items():
            if segment.tag in tags:
                segment.copy = ctypes.c_void_p()
                self._call("cudaMallocHost", ctypes.byref(segment.copy), ctypes.c_size_t(segment.size))
                self._copy(segment.copy, ctypes.c_void_p(address), segment.size)
                copied += segment.size
            if segment.tag in tags + drop:
                self._let_go(address, segment)
                segment.handle = None
        return copied

    def wake(self, tags: tuple[str, ...]) -> int:
        """Returns the bytes that were copied."""
        copied = 0
        for address, segment in self.segments.items():
            if segment.tag not in tags:
                continue
            segment.handle = self._mapped(address, segment.size)
            if segment.handle is None:
                raise torch.OutOfMemoryError(f"CUDA out of memory. {segment.size} bytes of {segment.tag} cannot wake.")
            if segment.copy is not None:
                self._copy(ctypes.c_void_p(address), segment.copy, segment.size)
                self._call("cudaFreeHost", segment.copy)
                segment.copy = None
                copied += segment.size
        return copied

    def host_bytes(self) -> int:
        """Of pinned memory."""
        return sum(segment.size for segment in self.segments.values() if segment.copy is not None)

    def _allocate(self, size: int, _gpu: int, _stream: int | None) -> int | None:
        size = -(-size // PAGE) * PAGE
        address = ctypes.c_uint64()
        self._call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_size_t(0), None, None)
        handle = self._mapped(address.value, size)
        if handle is None:
            self._call("cuMemAddressFree", address, ctypes.c_size_t(size))
            return None
        self.segments[address.value] = Segment(self._tag, size, handle)
        return address.value

    def _free(self, address: int, _size: int, _gpu: int, _stream: int | None) -> None:
        if segment := self.segments.pop(address, None):
            torch.cuda.synchronize()
            self._let_go(address, segment)

    def _mapped(self, address: int, size: int) -> ctypes.c_uint64 | None:
        """None: there is not so much memory."""
        handle, location = ctypes.c_uint64(), ctypes.c_uint64(address)
        properties, access = _Properties(type=1, location_type=1), _Access(location_type=1, flags=3)
        if self._driver.cuMemCreate(
            ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), ctypes.c_uint64(0)
        ):
            return None
        self._call("cuMemMap", location, ctypes.c_size_t(size), ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        self._call("cuMemSetAccess", location, ctypes.c_size_t(size), ctypes.byref(access), ctypes.c_size_t(1))
        return handle

    def _let_go(self, address: int, segment: Segment) -> None:
        if segment.handle is not None:
            self._call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(segment.size))
            self._call("cuMemRelease", segment.handle)

    def _copy(self, to: ctypes.c_void_p, source: ctypes.c_void_p, size: int) -> None:
        """Whichever way; the host waits."""
        self._call("cudaMemcpy", to, source, ctypes.c_size_t(size), 4)

    def _call(self, name: str, *arguments: object) -> None:
        library = self._runtime if name.startswith("cuda") else self._driver
        if status := getattr(library, name)(*arguments):
            raise RuntimeError(f"{name} failed with {status}")
