"""The CUDA driver's functions by ctypes: every status is looked at, and errors carry the driver's own names.

A call lets go of Python's lock, so threads wait for each other only inside the driver.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

_NOT_SUPPORTED = 801
_OUT_OF_MEMORY = 2
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


class DriverError(Exception):
    """A call failed; the message has the driver's words."""

    def __init__(self, call: str, status: int, name: str, text: str) -> None:
        super().__init__(f"{call} fails with {name} ({text})")
        self.call, self.status, self.name = call, status, name

    @property
    def is_unsupported(self) -> bool:
        return self.status == _NOT_SUPPORTED

    @property
    def is_out_of_memory(self) -> bool:
        return self.status == _OUT_OF_MEMORY

    @property
    def is_foreign_code(self) -> bool:
        return self.status in _FOREIGN_CODE


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
                found = getattr(self._library, name)
            except AttributeError:
                raise DriverError(name, _NOT_SUPPORTED, "no such function", "this driver is too old for it") from None
            found.argtypes, found.restype = _FUNCTIONS[name], c_int
            self._functions[name] = found
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
