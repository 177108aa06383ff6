"""What others have of the GPU; and what its driver, its settings and the host allow, for who reads the figures: nothing
is concluded from that.

As a program it prints this as JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import resource
from collections.abc import Callable, Iterator, Mapping
from ctypes import byref
from functools import partial
from pathlib import Path
from typing import Any

from frugal_alloc._command.doctor import virtual_memory
from frugal_alloc._command.doctor.driver import (
    COMPUTE_MODE,
    INTEGRATED,
    RDMA_WITH_VIRTUAL_MEMORY,
    SHAREABLE_HANDLES,
    Driver,
)
from frugal_alloc._command.doctor.driver_functions import DriverError

# CUdevice_attribute of cuda.h.
_ATTRIBUTES = {
    "clock_khz": 13,
    "integrated": INTEGRATED,
    "compute_mode": COMPUTE_MODE,
    "error_correction": 32,
    "memory_clock_khz": 36,
    "bus_bits": 37,
    "l2_bytes": 38,
    "export_to_file_descriptor": SHAREABLE_HANDLES,
    "rdma_with_virtual_memory": RDMA_WITH_VIRTUAL_MEMORY,
    "rdma": 116,
    "export_to_fabric": 128,
    "multicast": 132,
}
# What NVML is asked: the function, and what it takes between the GPU and where the answer goes.
_MULTIPROCESSORS, _MEMORY = 1, 2
_MIG = "mig_mode"
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
# Whether others may have the memory, and CUmemAllocationGranularity_flags.
_GRANULARITIES = {
    "least": (True, 0),
    "recommended": (True, 1),
    "least, not exportable": (False, 0),
    "recommended, not exportable": (False, 1),
}
#: NVIDIA's driver shows a few MiB of a GPU that nobody uses; the least context takes more than this.
_NOBODYS = 64 << 20
_HOST = (Path("/proc/sys/vm/max_map_count"), Path("/proc/sys/vm/overcommit_memory"))


class _Memory(ctypes.Structure):
    """nvmlMemory_t."""

    _fields_ = tuple((name, ctypes.c_ulonglong) for name in ("total", "free", "used"))


class _Memory2(ctypes.Structure):
    """nvmlMemory_v2_t, in which what the driver keeps for itself is not among what is used."""

    _fields_ = (
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    )


def main() -> None:
    gpu = Driver()
    with _nvml(gpu.pci_bus_id()) as nvml:
        others = nvml and _use(*nvml)  # before this process has a context
        settings = _settings(*nvml) if nvml else dict.fromkeys(_SETTINGS)
    with gpu.primary_context():
        print(json.dumps({"others": others, "conditions": _conditions(gpu) | {"settings": settings}}))


def is_nobody_elses(others: Mapping[str, int] | None) -> bool:
    """Whether nobody else uses the GPU that was described, not even a screen; not so where NVML cannot say it."""
    return others is not None and others["processes"] == 0 and others["used_bytes"] < _NOBODYS


def _conditions(gpu: Driver) -> dict[str, Any]:
    """None stands for what is not told here."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return {
        "attributes": {name: _told(partial(gpu.attribute, number)) for name, number in _ATTRIBUTES.items()},
        "granularity_bytes": {
            name: _told(partial(_granularity, gpu, *asked)) for name, asked in _GRANULARITIES.items()
        },
        "host": {
            "address_space_bytes": None if limit == resource.RLIM_INFINITY else limit,
            **{file.name: _told(lambda file=file: int(file.read_text())) for file in _HOST},
        },
    }


# --- By NVML, which the driver brings.


@contextlib.contextmanager
def _nvml(pci_bus_id: str) -> Iterator[tuple[ctypes.CDLL, ctypes.c_void_p] | None]:
    """The library, and the GPU at this address for it; None where it does not show it."""
    try:
        library, gpu = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
    except OSError:
        yield None
        return
    is_there = _ask(library, "nvmlInit_v2") and _ask(
        library, "nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.encode(), byref(gpu)
    )
    yield (library, gpu) if is_there else None
    _ask(library, "nvmlShutdown")


def _ask(library: ctypes.CDLL, function: str, *arguments: object) -> bool:
    """Whether there is an answer."""
    return hasattr(library, function) and getattr(library, function)(*arguments) == 0


def _use(library: ctypes.CDLL, gpu: ctypes.c_void_p) -> dict[str, int] | None:
    """What whoever it is has of the GPU, this process included; in a container NVML may show none of the processes."""
    memory: _Memory | _Memory2 = _Memory2(version=ctypes.sizeof(_Memory2) | 2 << 24)
    function = "nvmlDeviceGetMemoryInfo_v2"
    if not hasattr(library, function):
        # Drivers that have the first version alone count nothing of their own as used in it.
        memory, function = _Memory(), "nvmlDeviceGetMemoryInfo"
    if not _ask(library, function, gpu, byref(memory)):
        return None
    processes = 0
    for kind in ("Compute", "Graphics"):
        count = ctypes.c_uint(0)
        # With no place to list them it says how many there are. Where it lists none, it leaves the count as it is.
        _ask(library, f"nvmlDeviceGet{kind}RunningProcesses_v3", gpu, byref(count), None)
        processes += count.value
    return {"processes": processes, "used_bytes": memory.used}


def _settings(library: ctypes.CDLL, gpu: ctypes.c_void_p) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name, (function, *asked) in _SETTINGS.items():
        # Of BAR 1 there are three numbers, its size first; of MIG what is to come, too.
        answer, pending = (ctypes.c_ulonglong * 3)(), ctypes.c_uint()
        more = [byref(pending)] if name == _MIG else []
        found[name] = answer[0] if _ask(library, function, gpu, *asked, answer, *more) else None
    return found


def _told(ask: Callable[[], int]) -> int | None:
    with contextlib.suppress(DriverError, OSError):
        return ask()
    return None


def _granularity(gpu: Driver, exported: bool, flag: int) -> int:
    return gpu.made("cuMemGetAllocationGranularity", byref(virtual_memory.properties(gpu, exported)), flag)


if __name__ == "__main__":
    main()
