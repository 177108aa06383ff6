"""How many processes use a GPU, by NVML, which the driver brings."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable

_LIBRARY = "libnvidia-ml.so.1"
_INSUFFICIENT_SIZE = 7
_COUNTS = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3")


class _Unknown(Exception):
    pass


def processes(pci_bus_id: str) -> int | None:
    """Those that compute or draw on the GPU at this address, as far as NVML shows them; None where it does not.

    In a container it may show none although there are some.
    """
    try:
        library = ctypes.CDLL(_LIBRARY)
        _check(library.nvmlInit_v2())
    except (OSError, AttributeError, _Unknown):
        return None
    try:
        gpu = ctypes.c_void_p()
        _check(library.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), ctypes.byref(gpu)))
        return sum(_count(getattr(library, name), gpu) for name in _COUNTS)
    except (AttributeError, _Unknown):
        return None
    finally:
        with contextlib.suppress(_Unknown):
            _check(library.nvmlShutdown())


def _count(function: Callable[..., int], gpu: ctypes.c_void_p) -> int:
    count = ctypes.c_uint(0)
    status = function(gpu, ctypes.byref(count), None)
    # With no place to list them it says how many there are.
    if status != _INSUFFICIENT_SIZE:
        _check(status)
    return count.value


def _check(status: int) -> None:
    if status != 0:
        raise _Unknown
