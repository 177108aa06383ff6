"""The CUDA driver by ctypes, and a GPU that it shows: what the GPU is, its streams and its events.

Every status is looked at, and errors carry the driver's own names. A call lets go of Python's lock, so threads wait for
each other only inside the driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from .step import StepFailed

# CUdevice_attribute of cuda.h.
MULTIPROCESSORS = 16
INTEGRATED = 18
COMPUTE_MODE = 20
_COMPUTE_CAPABILITY = (75, 76)
VIRTUAL_MEMORY = 102
SHAREABLE_HANDLES = 103
RDMA_WITH_VIRTUAL_MEMORY = 110

_OUT_OF_MEMORY, _NOT_SUPPORTED = 2, 801
# No code for this GPU, PTX that does not assemble, and PTX of a newer CUDA.
_FOREIGN_CODE = (209, 218, 222)
_LIBRARY = "libcuda.so.1"

_Out = POINTER(c_void_p)


class Location(ctypes.Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class AllocationFlags(ctypes.Structure):
    _fields_ = (
        ("compression", ctypes.c_ubyte),
        ("rdma", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    )


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("windows", c_void_p),
        ("flags", AllocationFlags),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", Location), ("flags", c_int))


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute; of its union of 64 bytes, the first integer."""

    _fields_ = (("id", c_int), ("padding", c_int), ("value", c_int), ("rest", ctypes.c_ubyte * 60))


class LaunchConfiguration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)),
        ("attribute_count", c_uint),
    )


# Arguments as cuda.h has them; all return a CUresult.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetPCIBusId": (c_char_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_Out, c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (_Out,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxGetCurrent": (_Out,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemAddressReserve": (POINTER(c_uint64), c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemAddressFree": (c_uint64, c_size_t),
    "cuMemCreate": (POINTER(c_uint64), c_size_t, POINTER(AllocationProperties), c_uint64),
    "cuMemRelease": (c_uint64,),
    "cuMemMap": (c_uint64, c_size_t, c_size_t, c_uint64, c_uint64),
    "cuMemUnmap": (c_uint64, c_size_t),
    "cuMemSetAccess": (c_uint64, c_size_t, POINTER(Access), c_size_t),
    "cuMemGetAllocationGranularity": (POINTER(c_size_t), POINTER(AllocationProperties), c_int),
    "cuMemsetD32Async": (c_uint64, c_uint, c_size_t, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuStreamCreate": (_Out, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, _Out),
    "cuGraphInstantiateWithFlags": (_Out, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuEventCreate": (_Out, c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuModuleLoadData": (_Out, c_void_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (_Out, c_void_p, c_char_p),
    "cuLaunchKernel": (c_void_p, *[c_uint] * 7, c_void_p, POINTER(c_void_p), POINTER(c_void_p)),
    "cuLaunchKernelEx": (POINTER(LaunchConfiguration), c_void_p, POINTER(c_void_p), POINTER(c_void_p)),
}


class NoDriver(Exception):
    """There is no driver, or it shows no GPU; the message is one line that says what to do."""


class DriverError(StepFailed):
    """A call failed; the message has the driver's words."""

    def __init__(self, call: str, status: int, name: str, text: str) -> None:
        super().__init__(f"{call} fails with {name} ({text})")
        self.call, self.status, self.name = call, status, name
        self.is_unsupported = status == _NOT_SUPPORTED
        self.is_out_of_memory = status == _OUT_OF_MEMORY
        self.is_foreign_code = status in _FOREIGN_CODE


class DriverFunctions:
    """Calls functions by their names in cuda.h."""

    def __init__(self) -> None:
        """Raises NoDriver where there is none."""
        try:
            self._library = ctypes.CDLL(_LIBRARY)
        except OSError:
            raise NoDriver(f"no {_LIBRARY}; install NVIDIA's driver if there is a GPU here") from None
        self._functions: dict[str, Callable[..., int]] = {}

    def function(self, name: str) -> Callable[..., int]:
        """The function itself, for calls whose time counts: check() its status afterwards."""
        if name not in self._functions:
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise DriverError(name, _NOT_SUPPORTED, "no such function", "this driver is too old for it") from None
            function.argtypes, function.restype = _FUNCTIONS[name], c_int
            self._functions[name] = function
        return self._functions[name]

    def call(self, name: str, *arguments: Any) -> None:
        self.check(name, self.function(name)(*arguments))

    def check(self, call: str, status: int) -> None:
        if status != 0:
            raise self.error(call, status)

    def error(self, call: str, status: int) -> DriverError:
        name, text = c_char_p(), c_char_p()
        # What they themselves answer says only whether the number is known, which the empty text says, too.
        self._library.cuGetErrorName(status, ctypes.byref(name))
        self._library.cuGetErrorString(status, ctypes.byref(text))
        known = (name.value or b"an unknown error").decode(), (text.value or str(status).encode()).decode()
        return DriverError(call, status, *known)

    def made(self, name: str, *arguments: Any) -> int:
        """What a function makes, whose first argument is where it puts it: a handle, or an address."""
        result = _FUNCTIONS[name][0]._type_()
        self.call(name, ctypes.byref(result), *arguments)
        return result.value or 0

    def undo(self, name: str, *arguments: Any) -> None:
        """A call that cleans up. On the way out of an error, which it may fail with, too, the error is what counts."""
        status = self.function(name)(*arguments)
        if sys.exc_info()[0] is None:
            self.check(name, status)

    @contextlib.contextmanager
    def lent(self, make: tuple[Any, ...], undo: str, *more: Any) -> Iterator[int]:
        """What the call `make` makes, for the block; `undo` takes it back, called with it and what it needs more."""
        thing = self.made(*make)
        try:
            yield thing
        finally:
            self.undo(undo, thing, *more)


class Driver(DriverFunctions):
    """The driver, and a GPU that it shows: the first, or the one of this number."""

    def __init__(self, number: int = 0) -> None:
        """
        Raises:
            NoDriver: there is none, or no GPU.
        """
        super().__init__()
        try:
            self.call("cuInit", 0)
            self.count = self.made("cuDeviceGetCount")
        except DriverError as error:
            raise NoDriver(f"{error}; look at nvidia-smi and CUDA_VISIBLE_DEVICES") from None
        if self.count == 0:
            raise NoDriver("the driver shows no GPU; look at CUDA_VISIBLE_DEVICES")
        self.device = self.made("cuDeviceGet", number)

    # --- The GPU.

    @property
    def version(self) -> str:
        version = self.made("cuDriverGetVersion")
        return f"{version // 1000}.{version % 1000 // 10}"

    @property
    def name(self) -> str:
        return self._text("cuDeviceGetName")

    @property
    def pci_bus_id(self) -> str:
        return self._text("cuDeviceGetPCIBusId")

    def _text(self, function: str) -> str:
        text = ctypes.create_string_buffer(256)
        self.call(function, text, len(text), self.device)
        return text.value.decode(errors="replace")

    def attribute(self, which: int) -> int:
        """Raises DriverError where the driver does not know it."""
        return self.made("cuDeviceGetAttribute", which, self.device)

    def has(self, which: int) -> bool:
        """Whether the device has it; not so where the driver does not know it."""
        try:
            return self.attribute(which) != 0
        except DriverError:
            return False

    def compute_capability(self) -> tuple[int, int]:
        major, minor = map(self.attribute, _COMPUTE_CAPABILITY)
        return major, minor

    @contextlib.contextmanager
    def primary_context(self) -> Iterator[int]:
        """The device's primary context, current in this thread for the block."""
        context = self.made("cuDevicePrimaryCtxRetain", self.device)
        self.call("cuCtxPushCurrent_v2", context)
        try:
            yield context
        finally:
            self.undo("cuCtxPopCurrent_v2", ctypes.byref(c_void_p()))
            self.undo("cuDevicePrimaryCtxRelease_v2", self.device)

    def memory_info(self) -> tuple[int, int]:
        """Free and all bytes of the device."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    # --- Streams, events and words in memory.

    def stream(self) -> contextlib.AbstractContextManager[int]:
        """A stream that does not wait for the default stream."""
        return self.lent(("cuStreamCreate", 1), "cuStreamDestroy_v2")

    def event(self, timed: bool = False) -> contextlib.AbstractContextManager[int]:
        return self.lent(("cuEventCreate", 0 if timed else 2), "cuEventDestroy_v2")

    def milliseconds(self, start: int, end: int) -> float:
        """Between two timed events that have passed."""
        result = c_float()
        self.call("cuEventElapsedTime", ctypes.byref(result), start, end)
        return result.value

    def read(self, address: int, count: int) -> list[int]:
        """Words of 32 bits; waits for the default stream's work."""
        words = (c_uint * count)()
        self.call("cuMemcpyDtoH_v2", words, address, ctypes.sizeof(words))
        return list(words)
