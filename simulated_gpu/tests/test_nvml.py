"""What the stand-in for NVIDIA's management library says of a GPU. Runs on the simulated GPU."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

import pytest
import torch

DEVICE = "cuda"
NO_INSTANCE = 2**32 - 1


class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Memory2(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    ]


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Nvml:
    """The library, and GPU 0 in it."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.gpu = ctypes.c_void_p()
        assert self.library.nvmlInitWithFlags(0) == 0
        assert self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.gpu)) == 0

    def ask(self, function: str, answer: ctypes.Structure) -> ctypes.Structure:
        assert getattr(self.library, function)(self.gpu, ctypes.byref(answer)) == 0
        return answer


@pytest.fixture
def nvml() -> Nvml:
    torch.zeros(1, device=DEVICE)
    return Nvml()


@pytest.fixture
def busy_stream() -> Iterator[torch.cuda.Stream]:
    """A stream with an hour of work."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(3600 * 10**9)
    yield stream
    ctypes.CDLL(None).frugal_sim_set_clock(ctypes.c_uint64(2**62))


def test_memory_is_what_the_driver_says(nvml: Nvml) -> None:
    free, total = torch.cuda.mem_get_info()
    for memory in (nvml.ask("nvmlDeviceGetMemoryInfo", Memory()), nvml.ask("nvmlDeviceGetMemoryInfo_v2", Memory2(1))):
        assert (memory.total, memory.free, memory.used) == (total, free, total - free)


def test_second_version_keeps_its_version(nvml: Nvml) -> None:
    memory = nvml.ask("nvmlDeviceGetMemoryInfo_v2", Memory2(0x02000028))
    assert (memory.version, memory.reserved) == (0x02000028, 0)


def test_idle_gpu_is_used_by_nothing(nvml: Nvml) -> None:
    torch.cuda.synchronize()
    utilization = nvml.ask("nvmlDeviceGetUtilizationRates", Utilization())
    assert (utilization.gpu, utilization.memory) == (0, 0)


@pytest.mark.parametrize("version", ["_v2", "_v3"])
def test_processes_are_this_one_with_what_it_uses(nvml: Nvml, version: str) -> None:
    ask = getattr(nvml.library, "nvmlDeviceGetComputeRunningProcesses" + version)
    count, processes = ctypes.c_uint(0), (Process * 2)()
    assert ask(nvml.gpu, ctypes.byref(count), None) == 7  # NVML_ERROR_INSUFFICIENT_SIZE
    count.value = 2
    assert ask(nvml.gpu, ctypes.byref(count), processes) == 0
    free, total = torch.cuda.mem_get_info()
    assert (count.value, processes[0].pid, processes[0].used) == (1, os.getpid(), total - free)
    assert (processes[0].gpu_instance, processes[0].compute_instance) == (NO_INSTANCE, NO_INSTANCE)


def test_gpu_is_found_by_its_uuid(nvml: Nvml) -> None:
    uuid, found, index = ctypes.create_string_buffer(96), ctypes.c_void_p(), ctypes.c_uint(99)
    assert nvml.library.nvmlDeviceGetUUID(nvml.gpu, uuid, 96) == 0
    assert nvml.library.nvmlDeviceGetHandleByUUID(uuid.value, ctypes.byref(found)) == 0
    assert nvml.library.nvmlDeviceGetIndex(found, ctypes.byref(index)) == 0
    assert (found.value, index.value) == (nvml.gpu.value, 0)
    assert nvml.library.nvmlDeviceGetHandleByUUID(b"GPU-none", ctypes.byref(found)) == 6  # NVML_ERROR_NOT_FOUND


def test_gpu_with_work_is_used_fully(nvml: Nvml, busy_stream: torch.cuda.Stream) -> None:
    assert not busy_stream.query()
    utilization = nvml.ask("nvmlDeviceGetUtilizationRates", Utilization())
    assert (utilization.gpu, utilization.memory) == (100, 100)
