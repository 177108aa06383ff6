"""The CUDA driver, with the first GPU that it shows: what the GPU is, its streams and its events."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from ctypes import c_float, c_size_t, c_uint, c_void_p

from .driver_functions import DriverError, DriverFunctions, NoDriver

# CUdevice_attribute of cuda.h.
MULTIPROCESSORS = 16
INTEGRATED = 18
COMPUTE_MODE = 20
_COMPUTE_CAPABILITY = (75, 76)
VIRTUAL_MEMORY = 102
SHAREABLE_HANDLES = 103
RDMA_WITH_VIRTUAL_MEMORY = 110


class Driver(DriverFunctions):
    """The driver, and the first GPU that it shows."""

    def __init__(self) -> None:
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
        self.device = self.made("cuDeviceGet", 0)

    # --- The GPU.

    @property
    def version(self) -> str:
        version = self.made("cuDriverGetVersion")
        return f"{version // 1000}.{version % 1000 // 10}"

    def name(self) -> str:
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, len(text), self.device)
        return text.value.decode(errors="replace")

    def pci_bus_id(self) -> str:
        text = ctypes.create_string_buffer(64)
        self.call("cuDeviceGetPCIBusId", text, len(text), self.device)
        return text.value.decode()

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

    # --- Streams and events.

    @contextlib.contextmanager
    def stream(self) -> Iterator[int]:
        """A stream that does not wait for the default stream."""
        stream = self.made("cuStreamCreate", 1)
        try:
            yield stream
        finally:
            self.undo("cuStreamDestroy_v2", stream)

    @contextlib.contextmanager
    def event(self, timed: bool = False) -> Iterator[int]:
        event = self.made("cuEventCreate", 0 if timed else 2)
        try:
            yield event
        finally:
            self.undo("cuEventDestroy_v2", event)

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
