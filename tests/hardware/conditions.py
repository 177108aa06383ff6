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
from ctypes import byref, c_uint, c_ulonglong
from functools import partial
from pathlib import Path
from typing import Any

from frugal_alloc._command.doctor import driver
from frugal_alloc._command.doctor.virtual_memory import Gpu

# CUdevice_attribute of cuda.h.
_ATTRIBUTES = {
    "clock_khz": 13,
    "integrated": driver.INTEGRATED,
    "compute_mode": driver.COMPUTE_MODE,
    "error_correction": 32,
    "memory_clock_khz": 36,
    "bus_bits": 37,
    "l2_bytes": 38,
    "export_to_file_descriptor": driver.SHAREABLE_HANDLES,
    "rdma_with_virtual_memory": driver.RDMA_WITH_VIRTUAL_MEMORY,
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

    _fields_ = tuple((name, c_ulonglong) for name in ("total", "free", "used"))


class _Memory2(ctypes.Structure):
    """nvmlMemory_v2_t, in which what the driver keeps for itself is not among what is used."""

    _fields_ = (("version", c_uint), *((name, c_ulonglong) for name in ("total", "reserved", "free", "used")))


def main() -> None:
    gpu = Gpu()
    with _nvml(gpu.pci_bus_id) as ask:
        others = ask and _use(ask)  # before this process has a context
        settings = _settings(ask) if ask else dict.fromkeys(_SETTINGS)
    with gpu.primary_context():
        print(json.dumps({"others": others, "conditions": _conditions(gpu) | {"settings": settings}}))


def is_nobody_elses(others: Mapping[str, int] | None) -> bool:
    """Whether nobody else uses the GPU that was described, not even a screen; not so where NVML cannot say it."""
    return others is not None and others["processes"] == 0 and others["used_bytes"] < _NOBODYS


def _conditions(gpu: Gpu) -> dict[str, Any]:
    """None stands for what is not told here."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    granularities = {name: partial(_granularity, gpu, *asked) for name, asked in _GRANULARITIES.items()}
    return {
        "attributes": {name: _answer(partial(gpu.attribute, number)) for name, number in _ATTRIBUTES.items()},
        "granularity_bytes": {name: _answer(ask) for name, ask in granularities.items()},
        "host": {
            "address_space_bytes": None if limit == resource.RLIM_INFINITY else limit,
            **{file.name: _answer(lambda file=file: int(file.read_text())) for file in _HOST},
        },
    }


def _answer(ask: Callable[[], int]) -> int | None:
    with contextlib.suppress(driver.DriverError, OSError):
        return ask()
    return None


def _granularity(gpu: Gpu, exported: bool, flag: int) -> int:
    return gpu.made("cuMemGetAllocationGranularity", byref(gpu.properties(exported)), flag)


# --- By NVML, which the driver brings.


#: A function's name, and what it takes after the GPU; whether there is an answer.
_Ask = Callable[..., bool]


@contextlib.contextmanager
def _nvml(pci_bus_id: str) -> Iterator[_Ask | None]:
    """Asks NVML of the GPU at this address; None where it does not show it."""
    try:
        library, gpu = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
    except OSError:
        yield None
        return

    def call(function: str, *arguments: object) -> bool:
        return hasattr(library, function) and getattr(library, function)(*arguments) == 0

    address = pci_bus_id.encode()
    is_there = call("nvmlInit_v2") and call("nvmlDeviceGetHandleByPciBusId_v2", address, byref(gpu))
    yield (lambda function, *arguments: call(function, gpu, *arguments)) if is_there else None
    call("nvmlShutdown")


def _use(ask: _Ask) -> dict[str, int] | None:
    """What whoever it is has of the GPU, this process included; in a container NVML may show none of the processes."""
    memory: _Memory | _Memory2 = _Memory2(version=ctypes.sizeof(_Memory2) | 2 << 24)
    if not ask("nvmlDeviceGetMemoryInfo_v2", byref(memory)):
        # Drivers that have the first version alone count nothing of their own as used in it.
        memory = _Memory()
        if not ask("nvmlDeviceGetMemoryInfo", byref(memory)):
            return None
    processes = 0
    for kind in ("Compute", "Graphics"):
        count = c_uint(0)
        # With no place to list them it says how many there are. Where it lists none, it leaves the count as it is.
        ask(f"nvmlDeviceGet{kind}RunningProcesses_v3", byref(count), None)
        processes += count.value
    return {"processes": processes, "used_bytes": memory.used}


def _settings(ask: _Ask) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name, (function, *asked) in _SETTINGS.items():
        # Of BAR 1 there are three numbers, its size first; of MIG what is to come, too.
        answer, pending = (c_ulonglong * 3)(), c_uint()
        more = [byref(pending)] if name == _MIG else []
        found[name] = answer[0] if ask(function, *asked, answer, *more) else None
    return found


if __name__ == "__main__":
    main()
