"""What others have of a GPU, by NVML, which the driver brings."""

from __future__ import annotations

import contextlib
import ctypes
from typing import NamedTuple

_LIBRARY = "libnvidia-ml.so.1"
_COUNTS = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3")


class _Unknown(Exception):
    pass


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


class _Memory2(ctypes.Structure):
    """nvmlMemory_v2_t, in which what the driver keeps for itself is not among what is used."""

    _fields_ = (
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    )


class Use(NamedTuple):
    #: Those that compute or draw, as far as it shows them: in a container it may show none although there are some.
    processes: int
    #: Whoever's it is, in a container, too.
    used_bytes: int


def use(pci_bus_id: str) -> Use | None:
    """Of the GPU at this address, this process included; None where NVML does not show it."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        _check(library.nvmlInit_v2())
    except (OSError, AttributeError, _Unknown):
        return None
    try:
        gpu = ctypes.c_void_p()
        _check(library.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), ctypes.byref(gpu)))
        return Use(sum(_count(library, name, gpu) for name in _COUNTS), _used(library, gpu))
    except (AttributeError, _Unknown):
        return None
    finally:
        with contextlib.suppress(_Unknown):
            _check(library.nvmlShutdown())


def _used(library: ctypes.CDLL, gpu: ctypes.c_void_p) -> int:
    memory = _Memory2(version=ctypes.sizeof(_Memory2) | 2 << 24)
    if hasattr(library, "nvmlDeviceGetMemoryInfo_v2"):
        _check(library.nvmlDeviceGetMemoryInfo_v2(gpu, ctypes.byref(memory)))
        return memory.used
    # Drivers that have the first version alone count nothing of their own as used in it.
    older = _Memory()
    _check(library.nvmlDeviceGetMemoryInfo(gpu, ctypes.byref(older)))
    return older.used


def _count(library: ctypes.CDLL, name: str, gpu: ctypes.c_void_p) -> int:
    if not hasattr(library, name):
        return 0
    count = ctypes.c_uint(0)
    # With no place to list them it says how many there are. Where it lists none, it leaves the count as it is.
    getattr(library, name)(gpu, ctypes.byref(count), None)
    return count.value


def _check(status: int) -> None:
    if status != 0:
        raise _Unknown
