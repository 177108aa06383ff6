"""What a driver, a GPU's settings and the host allow, for who reads the figures: nothing is concluded from it."""

from __future__ import annotations

import contextlib
import resource
from ctypes import byref
from pathlib import Path
from typing import Any

from . import nvml, virtual_memory
from .driver import COMPUTE_MODE, RDMA_WITH_VIRTUAL_MEMORY, SHAREABLE_HANDLES, Driver
from .driver_functions import DriverError

# CUdevice_attribute of cuda.h.
_ATTRIBUTES = {
    "clock_khz": 13,
    "integrated": 18,
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
# Whether others may have the memory, and CUmemAllocationGranularity_flags.
_GRANULARITIES = {
    "least": (True, 0),
    "recommended": (True, 1),
    "least, not exportable": (False, 0),
    "recommended, not exportable": (False, 1),
}
_HOST = ("max_map_count", "overcommit_memory")


def of(gpu: Driver) -> dict[str, Any]:
    """None stands for what is not told here."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return {
        "attributes": {name: _attribute(gpu, number) for name, number in _ATTRIBUTES.items()},
        "granularity_bytes": {name: _granularity(gpu, *asked) for name, asked in _GRANULARITIES.items()},
        "settings": nvml.settings(gpu.pci_bus_id()),
        "host": {
            "address_space_bytes": None if limit == resource.RLIM_INFINITY else limit,
            **{name: _host(name) for name in _HOST},
        },
    }


def _attribute(gpu: Driver, number: int) -> int | None:
    with contextlib.suppress(DriverError):
        return gpu.attribute(number)
    return None


def _granularity(gpu: Driver, exported: bool, flag: int) -> int | None:
    asked = virtual_memory.properties(gpu, exported)
    with contextlib.suppress(DriverError):
        return gpu.made("cuMemGetAllocationGranularity", byref(asked), flag)
    return None


def _host(name: str) -> int | None:
    with contextlib.suppress(OSError):
        return int(Path("/proc/sys/vm", name).read_text())
    return None
