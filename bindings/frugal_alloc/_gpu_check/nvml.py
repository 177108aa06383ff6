"""How many processes use a GPU, and how it is set up, by NVML, which the driver brings."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_INSUFFICIENT_SIZE = 7
_COUNTS = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3")
_MULTIPROCESSORS, _MEMORY = 1, 2
_MIG = "mig_mode"
# Questions about a GPU: the function, and what it takes between the GPU and where the answer goes.
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "clock_mhz": ("nvmlDeviceGetClockInfo", _MULTIPROCESSORS),
    "most_clock_mhz": ("nvmlDeviceGetMaxClockInfo", _MULTIPROCESSORS),
    "memory_clock_mhz": ("nvmlDeviceGetClockInfo", _MEMORY),
    "most_memory_clock_mhz": ("nvmlDeviceGetMaxClockInfo", _MEMORY),
    "power_limit_milliwatts": ("nvmlDeviceGetEnforcedPowerLimit",),
    "persistence_mode": ("nvmlDeviceGetPersistenceMode",),
    "bar1_bytes": ("nvmlDeviceGetBAR1MemoryInfo",),
    _MIG: ("nvmlDeviceGetMigMode",),
}


class _Unknown(Exception):
    pass


def processes(pci_bus_id: str) -> int | None:
    """Those that compute or draw on the GPU at this address, as far as NVML shows them; None where it does not.

    In a container it may show none although there are some.
    """
    with contextlib.suppress(OSError, AttributeError, _Unknown), _opened(pci_bus_id) as (library, gpu):
        return sum(_count(getattr(library, name), gpu) for name in _COUNTS)
    return None


def settings(pci_bus_id: str) -> dict[str, int | None]:
    """Of the GPU at this address, as they are now; None stands for what NVML does not tell."""
    found: dict[str, int | None] = dict.fromkeys(_SETTINGS)
    with contextlib.suppress(OSError, AttributeError, _Unknown), _opened(pci_bus_id) as (library, gpu):
        for name, (function, *asked) in _SETTINGS.items():
            # Of BAR 1 there are three numbers, its size first; of MIG what is to come, too.
            answer, pending = (ctypes.c_ulonglong * 3)(), ctypes.c_uint()
            more = [ctypes.byref(pending)] if name == _MIG else []
            with contextlib.suppress(AttributeError, _Unknown):
                _check(getattr(library, function)(gpu, *asked, answer, *more))
                found[name] = answer[0]
    return found


@contextlib.contextmanager
def _opened(pci_bus_id: str) -> Iterator[tuple[ctypes.CDLL, ctypes.c_void_p]]:
    """The library, and its name for the GPU.

    Raises:
        OSError, AttributeError, _Unknown: there is no such library, or GPU.
    """
    library = ctypes.CDLL(_LIBRARY)
    _check(library.nvmlInit_v2())
    try:
        gpu = ctypes.c_void_p()
        _check(library.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), ctypes.byref(gpu)))
        yield library, gpu
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
