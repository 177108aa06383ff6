"""Late work as programs meet it: what touches memory that is not what it was ends the process, and says what it was."""

from __future__ import annotations

import re
import subprocess

import pytest
from checkout import output_of, run

FAULT = 3

VIRTUAL_MEMORY = """
import ctypes
cuda, cudart = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.13")
P, U64, SIZE, byref = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t, ctypes.byref
PAGE = 2 << 20

def check(status):
    assert status == 0, status

class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]

class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("location", Location), ("rest", ctypes.c_char * 64)]

class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]

check(cudart.cudaSetDevice(0))
stream, page = P(), U64()
check(cudart.cudaStreamCreateWithFlags(byref(stream), 1))
check(cuda.cuMemAddressReserve(byref(page), SIZE(PAGE), SIZE(PAGE), U64(0), U64(0)))

def map_new():
    handle = U64()
    check(cuda.cuMemCreate(byref(handle), SIZE(PAGE), byref(Properties(type=1, location=Location(1, 0))), U64(0)))
    check(cuda.cuMemMap(page, SIZE(PAGE), SIZE(0), handle, U64(0)))
    check(cuda.cuMemSetAccess(page, SIZE(PAGE), byref(Access(Location(1, 0), 3)), SIZE(1)))

def fill():
    check(cudart.cudaMemsetAsync(P(page.value), 7, SIZE(PAGE), stream))

def unmap():
    check(cuda.cuMemUnmap(page, SIZE(PAGE)))

map_new()
"""

TORCH = """
import ctypes, torch
device = torch.device("cuda")
busy = 50_000_000  # nanoseconds of simulated time
side = torch.cuda.Stream()
"""


def run_late(program: str) -> subprocess.CompletedProcess[str]:
    return run(program, is_forked=True, FRUGAL_SIM_LATE="1", FRUGAL_SIM_ORDER="0")


def run_well(program: str, values: str = "none") -> str:
    late = {"FRUGAL_SIM_LATE": "1", "FRUGAL_SIM_ORDER": "0"}
    return output_of(program, gpu={"values": values}, is_forked=True, **late)


def test_unmap_under_a_fill_ends_the_process_and_names_it():
    done = run_late(
        VIRTUAL_MEMORY
        + "fill(); unmap(); print('on', flush=True); check(cudart.cudaStreamSynchronize(stream)); print('no')"
    )
    assert (done.returncode, done.stdout) == (FAULT, "on\n"), done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    pattern = (
        r"frugal simulated GPU: 'memset' on stream \d+ of GPU 0, which ends at \d+ ns, writes 2097152 bytes at (\S+), "
    )
    assert re.fullmatch(pattern + r"but memory at \1 was unmapped by thread \d+ at \d+ ns", line), line


def test_memory_freed_in_stream_order_is_there_until_the_stream_has_come_so_far():
    out = run_well(
        VIRTUAL_MEMORY
        + """
pointer, free, total = P(), SIZE(), SIZE()
check(cudart.cudaMallocAsync(byref(pointer), SIZE(PAGE), stream))
check(cudart.cudaMemsetAsync(pointer, 7, SIZE(PAGE), stream))
check(cudart.cudaFreeAsync(pointer, stream))
cuda.frugal_sim_memory_used.restype = U64
before = cuda.frugal_sim_memory_used(0)
check(cudart.cudaStreamSynchronize(stream))
print((before - cuda.frugal_sim_memory_used(0)) // PAGE)
"""
    )
    assert out == "1\n"


def test_missing_record_stream_is_harmless_with_native():
    run_well(
        TORCH
        + """
tensor = torch.ones(1 << 20, device=device)
torch.cuda.synchronize()
with torch.cuda.stream(side):
    torch.cuda._sleep(busy)
    total = tensor.sum()
del tensor  # no record_stream
other = torch.zeros(1 << 20, device=device)  # the same memory
torch.cuda.synchronize()
"""
    )


# What is printed of values, by what a program does.
PROGRAMS = {
    "copies arrive when the host has waited": (
        """
source = torch.full((1000,), 3.0).pin_memory()
target = torch.zeros(1000).pin_memory()
torch.cuda._sleep(busy)
on_gpu = source.to(device, non_blocking=True)
target.copy_(on_gpu, non_blocking=True)
print(target[0].item())
torch.cuda.synchronize()
print(target[0].item())
""",
        "0.0\n3.0\n",
    ),
    "a source that the host overwrites too early is copied as it is then": (
        """
source = torch.full((1000,), 3.0).pin_memory()
torch.cuda._sleep(busy)
on_gpu = source.to(device, non_blocking=True)
source.fill_(4.0)
print(on_gpu.cpu()[0].item())
""",
        "4.0\n",
    ),
    "pageable copies block the host": (
        """
source = torch.full((1000,), 3.0)
torch.cuda._sleep(busy)
on_gpu = source.to(device, non_blocking=True)
source.fill_(4.0)
target = torch.zeros(1000)
target.copy_(on_gpu, non_blocking=True)
print(target[0].item())
""",
        "3.0\n",
    ),
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_data_moves_when_its_work_is_done(what):
    program, out = PROGRAMS[what]
    assert run_well(TORCH + program) == out


def test_values_computed_on_the_cpu_stay_right():
    out = run_well(
        TORCH
        + """
x = torch.arange(1000.0, device=device)
torch.cuda._sleep(busy)
y = torch.zeros(1000, device=device)
y += x * 2
with torch.cuda.stream(side):
    side.wait_stream(torch.cuda.default_stream())
    z = y + torch.ones(1000, device=device)
torch.cuda.synchronize()
print(z.sum().item())
""",
        values="cpu",
    )
    assert out == "1000000.0\n"


@pytest.mark.parametrize("values", ["none", "cpu"])
def test_runs_are_equal_in_time(values):
    program = (
        TORCH
        + """
model = torch.nn.Linear(64, 64).to(device)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
start.record()
for _ in range(3):
    model(torch.zeros(8, 64, device=device)).sum().backward()
end.record()
print(end.query())
end.synchronize()
print(start.elapsed_time(end))
"""
    )
    first = run_well(program, values)
    assert first.startswith("False\n"), "the host runs ahead of the GPU"
    assert run_well(program, values) == first
