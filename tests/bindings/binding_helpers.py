"""What the binding tests share."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import fork_server
import frugal_alloc
import pytest
import torch
from frugal_alloc import _native

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

# What each process says at its end, for whom the simulated GPU checked the order of work.
ORDER = re.compile(
    r"^frugal simulated GPU: the order of \d+ accesses was checked, (?P<violations>\d+) violations\n", re.M
)

simulated_gpu = pytest.mark.simulated_gpu


def empty(size: int, device: str = "cuda") -> torch.Tensor:
    """A tensor of `size` bytes."""
    return torch.empty(size, dtype=torch.uint8, device=device)


def is_ours(memory: torch.Tensor | int) -> bool:
    """Whether a tensor, or an address, lies in frugal_alloc's memory."""
    return _native.load().owns(memory if isinstance(memory, int) else memory.data_ptr())


def segment_of(memory: torch.Tensor | int, snapshot: dict | None = None) -> dict:
    """The one segment of a snapshot, or else of one made now, that a tensor's memory or an address lies in."""
    segments = snapshot["segments"] if snapshot else torch.cuda.memory_snapshot()
    address = memory if isinstance(memory, int) else memory.data_ptr()
    (found,) = [s for s in segments if s["address"] <= address < s["address"] + s["total_size"]]
    return found


def is_mapped(memory: torch.Tensor | int) -> bool:
    """Whether it lies in memory that is mapped, and no other process can open: of the segments in a snapshot."""
    return segment_of(memory)["is_expandable"]


@contextlib.contextmanager
def natively() -> Iterator[None]:
    """Within it, new memory is PyTorch's own allocator's."""
    frugal_alloc.disable()
    try:
        yield
    finally:
        frugal_alloc.enable()


def pooled(pool: torch.cuda.MemPool, size: int) -> torch.Tensor:
    with torch.cuda.use_mem_pool(pool):
        return empty(size)


def collect() -> None:
    gc.collect()
    torch.cuda.synchronize()


def cuda_runtime() -> ctypes.CDLL:
    """The runtime that PyTorch has loaded."""
    return ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}")


def captured(source: torch.Tensor, **how: object) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    """A graph that copies the source, and where to."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **how):
        result = source.clone()
    return graph, result


class UsersAllocator:
    """Calls cudaMalloc and cudaFree; has the sizes of what pools of its `allocator` hold in `live`, by address."""

    _functions: ClassVar[list[Any]] = []  # for ever, since a pool may outlive this

    def __init__(self) -> None:
        runtime, self.live, self.is_out = cuda_runtime(), {}, False
        self.on_request = lambda: None

        @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        def allocate(size, device, stream):
            self.on_request()
            pointer = ctypes.c_void_p()
            if self.is_out or runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) != 0:
                return None
            self.live[pointer.value] = size
            return pointer.value

        @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
        def free(pointer, size, device, stream):
            assert self.live.pop(pointer) == size
            assert runtime.cudaFree(ctypes.c_void_p(pointer)) == 0

        self._functions += (allocate, free)
        pointers = (ctypes.cast(function, ctypes.c_void_p).value for function in (allocate, free))
        self.allocator = torch._C._cuda_customAllocator(*pointers)


def skip_where_others_use_the_gpu() -> None:
    if os.environ.get("FRUGAL_TEST_GPU") == "shared":
        pytest.skip("others use this GPU, so it is not filled")


@contextlib.contextmanager
def room(size: int) -> Iterator[None]:
    """Within it, so many bytes of the GPU can be had, whatever its size: one block of native's holds the rest.

    Ours would take 70 µs of driver time for each 2 MiB. A GPU that others use is not filled.
    """
    skip_where_others_use_the_gpu()
    collect()
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    if free < size:
        pytest.skip(f"this GPU has no {size >> 20} MiB free")
    with natively():
        rest = empty((free - size) // (2 * MIB) * 2 * MIB)
    try:
        yield
    finally:
        del rest
        collect()
        torch.cuda.empty_cache()


@contextlib.contextmanager
def limit(size: int) -> Iterator[None]:
    """Within it, ours and native's memory together are limited to so many bytes."""
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(size / torch.cuda.mem_get_info()[1])
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def failure(run: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Runs something that must run out of memory; returns the error's text."""
    with pytest.raises(torch.OutOfMemoryError) as raised:
        run(*arguments, **options)
    text = str(raised.value)
    raised.value.__traceback__ = None
    return text


def run_python(code: str, *, is_forked: bool | None = None, **environment: str | None) -> dict:
    """Runs `code` in a process of its own with this one's environment, changed as said (None: taken out).

    It is forked from one that has PyTorch unless what changes is read while that is loaded. With `is_forked` it is in
    any case, which pays where a file has several such programs, or is not, for a fresh interpreter.

    The code calls ``report(key=value, ...)``; what it reported is returned, with ``stderr`` and ``status``. What the
    simulated GPU says of the order of its work is no part of ``stderr``; work without order fails the test.
    """
    prelude = (
        "import json\nreported = {}\nreport = reported.update\n"
        "import atexit; atexit.register(lambda: print('\\nREPORT' + json.dumps(reported)))\n"
    )
    changed = dict(os.environ)
    for name, value in environment.items():
        if value is None:
            changed.pop(name, None)
        else:
            changed[name] = value
    command = [sys.executable, "-c", prelude + code]
    if fork_server.are_alike(os.environ, changed) if is_forked is None else is_forked:
        done = fork_server.run(command, env=changed)
    else:
        done = subprocess.run(command, env=changed, capture_output=True, text=True, timeout=600)
    lines = [line for line in done.stdout.splitlines() if line.startswith("REPORT")]
    result = json.loads(lines[-1].removeprefix("REPORT")) if lines else {}
    assert all(order["violations"] == "0" for order in ORDER.finditer(done.stderr)), done.stderr
    return result | {"stderr": ORDER.sub("", done.stderr), "status": done.returncode, "stdout": done.stdout}


def run_well(code: str, **environment: str | None) -> dict:
    """As run_python(), of a program that ends well."""
    result = run_python(code, **environment)
    assert result["status"] == 0, result["stderr"]
    return result


class Simulation:
    """The controls of the simulated GPU that this process runs on (simulated_gpu/machine/control.h)."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._calls = library.frugal_sim_calls
        self._calls.argtypes = [ctypes.c_char_p]
        self._calls.restype = ctypes.c_uint64
        self._used = library.frugal_sim_memory_used
        self._used.argtypes = [ctypes.c_int]
        self._used.restype = ctypes.c_uint64
        self._set_clock = library.frugal_sim_set_clock
        self._set_clock.argtypes = [ctypes.c_uint64]
        self._set_busy = library.frugal_sim_set_stream_busy_until
        self._set_busy.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self._set_faults = library.frugal_sim_set_faults
        self._set_faults.argtypes = [ctypes.c_char_p]

        self._order_violations = library.frugal_sim_order_violations
        self._order_violations.restype = ctypes.c_uint64

    def calls(self, kind: str) -> int:
        return self._calls(kind.encode())

    def memory_used(self, gpu: int = 0) -> int:
        return self._used(gpu)

    @contextlib.contextmanager
    def nothing_unordered(self) -> Iterator[None]:
        """No byte is used in the block before its last use is ordered."""
        before = self._order_violations()
        yield
        torch.cuda.synchronize()
        assert self._order_violations() == before, "the simulated GPU names them at the end of the process"

    def set_clock(self, nanoseconds: int) -> None:
        """From the first call on, time stands still but for these calls. It never goes back."""
        self._set_clock(nanoseconds)

    def keep_busy(self, stream: torch.cuda.Stream, until: int) -> None:
        """The work that is on the stream now ends at `until`."""
        self._set_busy(stream.cuda_stream, until)

    @contextlib.contextmanager
    def faults(self, plan: str) -> Iterator[None]:
        """Calls of the driver fail as the plan says, until the block ends."""
        assert self._set_faults(plan.encode()) == 0, f"not a fault plan: {plan}"
        try:
            yield
        finally:
            self._set_faults(b"")


def use_on_several_streams(simulation: Simulation, later: Callable[[], int]) -> None:
    """Streams of the current GPU, all of them busy, take turns at making memory, using each other's and letting go.

    Args:
        simulation: Controls the GPU.
        later: A later moment at each call.
    """
    maker, user = torch.cuda.Stream(), torch.cuda.Stream()
    simulation.set_clock(later())
    for _ in range(4):
        with torch.cuda.stream(maker):
            tensor = empty(10 * MIB).zero_()
        user.wait_stream(maker)
        with torch.cuda.stream(user):
            tensor.sum()
        simulation.keep_busy(user, later())
        tensor.record_stream(user)
        del tensor
    for stream in 3 * (maker, user, torch.cuda.current_stream()):
        with torch.cuda.stream(stream):
            empty(10 * MIB).zero_()
        simulation.keep_busy(stream, later())
