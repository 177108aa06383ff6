"""What a driver, a GPU's settings and the host allow, for who reads the figures: nothing is concluded from it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import resource
from collections.abc import Callable
from ctypes import byref
from functools import partial
from pathlib import Path
from typing import Any

from frugal_alloc._gpu_check import virtual_memory
from frugal_alloc._gpu_check.driver import COMPUTE_MODE, INTEGRATED, RDMA_WITH_VIRTUAL_MEMORY, SHAREABLE_HANDLES, Driver
from frugal_alloc._gpu_check.driver_functions import DriverError

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
_HOST = (Path("/proc/sys/vm/max_map_count"), Path("/proc/sys/vm/overcommit_memory"))


def of(gpu: Driver) -> dict[str, Any]:
    """None stands for what is not told here."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return {
        "attributes": {name: _told(partial(gpu.attribute, number)) for name, number in _ATTRIBUTES.items()},
        "granularity_bytes": {
            name: _told(partial(_granularity, gpu, *asked)) for name, asked in _GRANULARITIES.items()
        },
        "settings": _settings(gpu.pci_bus_id()),
        "host": {
            "address_space_bytes": None if limit == resource.RLIM_INFINITY else limit,
            **{file.name: _told(lambda file=file: int(file.read_text())) for file in _HOST},
        },
    }


def main() -> None:
    gpu = Driver()
    with gpu.primary_context():
        print(json.dumps(of(gpu)))


def _settings(pci_bus_id: str) -> dict[str, int | None]:
    found: dict[str, int | None] = dict.fromkeys(_SETTINGS)
    with contextlib.suppress(OSError, AttributeError):
        library, gpu = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByPciBusId_v2(pci_bus_id.encode(), byref(gpu)):
            return found
        for name, (function, *asked) in _SETTINGS.items():
            # Of BAR 1 there are three numbers, its size first; of MIG what is to come, too.
            answer, pending = (ctypes.c_ulonglong * 3)(), ctypes.c_uint()
            more = [byref(pending)] if name == _MIG else []
            if hasattr(library, function) and getattr(library, function)(gpu, *asked, answer, *more) == 0:
                found[name] = answer[0]
        library.nvmlShutdown()
    return found


def _told(ask: Callable[[], int]) -> int | None:
    with contextlib.suppress(DriverError, OSError):
        return ask()
    return None


def _granularity(gpu: Driver, exported: bool, flag: int) -> int:
    return gpu.made("cuMemGetAllocationGranularity", byref(virtual_memory.properties(gpu, exported)), flag)


if __name__ == "__main__":
    main()
