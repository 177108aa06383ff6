"""A simulated GPU whose memory is the host's: what the driver and the kernel say of it, and what a program takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from checkout import GIB, package_first, run

MIB = 1 << 20
MEMORY = 8 * GIB
OVERLOADED = 7
# What a Python program without torch may have of its own, and more.
OWN = 200 * MIB

PROGRAM = """
import ctypes, json, sys
cuda = ctypes.CDLL("libcudart.so.13")
nvml = ctypes.CDLL("libnvidia-ml.so.1")
def info():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert cuda.cudaMemGetInfo(ctypes.byref(free), ctypes.byref(total)) == 0
    return free.value, total.value
def attribute(which):
    value = ctypes.c_int()
    assert cuda.cudaDeviceGetAttribute(ctypes.byref(value), which, 0) == 0
    return value.value
def malloc(size):
    return cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size))
def pin(size):
    pointer = ctypes.c_void_p()
    return cuda.cudaHostAlloc(ctypes.byref(pointer), ctypes.c_size_t(size), 0), pointer
def meminfo():
    with open("/proc/meminfo") as file:
        return {line.split(":")[0]: int(line.split()[1]) << 10 for line in file}
def say(what):
    print(json.dumps(what), flush=True)
"""


def run_unified(code: str, unified: bool = True, **more: str) -> subprocess.CompletedProcess:
    base = dict(os.environ) | more | ({"FRUGAL_SIM_UNIFIED": "1"} if unified else {})
    return run(PROGRAM + code, MEMORY, gpu={"base": base})


def said(code: str, unified: bool = True, **more: str) -> list:
    done = run_unified(code, unified, **more)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_gpu_says_that_it_is_integrated_and_its_memory_the_hosts() -> None:
    (answer,) = said("say([attribute(18), info()[1], meminfo()['MemTotal']])")
    assert answer == [1, MEMORY, MEMORY]


def test_a_gpu_with_memory_of_its_own_leaves_the_hosts_files_alone() -> None:
    (answer,) = said("say([attribute(18), meminfo()['MemTotal']])", unified=False)
    with open("/proc/meminfo", encoding="ascii") as file:
        total = int(file.readline().split()[1]) << 10
    assert answer == [0, total]


def test_what_the_driver_calls_free_leaves_out_files_that_the_kernel_would_forget() -> None:
    (answer,) = said("say([info()[0], meminfo()])", FRUGAL_SIM_HOST_CACHE="3GiB", FRUGAL_SIM_HOST_OTHERS="1GiB")
    free, meminfo = answer
    # Other processes, and the GPU's context.
    assert MEMORY - 4 * GIB - 512 * MIB - OWN < free < MEMORY - 4 * GIB - 512 * MIB
    assert abs(meminfo["MemFree"] - free) < OWN
    assert meminfo["MemAvailable"] == pytest.approx(meminfo["MemFree"] + 3 * GIB, abs=MIB)
    assert meminfo["SwapFree"] == 0


def test_cached_files_go_as_their_room_is_needed() -> None:
    code = "say([info()[0], malloc(5 << 30), meminfo()['Cached']])"
    ((free, status, cached),) = said(code, FRUGAL_SIM_HOST_CACHE="6GiB")
    assert free < 2 * GIB
    assert status == 0
    assert cached < 3 * GIB


def test_memory_of_the_process_counts_as_it_is_taken_and_given_back() -> None:
    code = """
before = info()[0]
status, pinned = pin(1 << 30)
held = info()[0]
cuda.cudaFreeHost(pinned)
after = info()[0]
pageable = b"x" * (256 << 20)
say([status, before - held, before - after, after - info()[0]])
"""
    ((status, pinned, left, pageable),) = said(code)
    assert status == 0
    assert pinned == pytest.approx(GIB, abs=8 * MIB)
    assert left == pytest.approx(0, abs=8 * MIB)
    assert pageable == pytest.approx(256 * MIB, abs=8 * MIB)


@pytest.mark.parametrize("what", ["malloc(9 << 30)", "pin(9 << 30)", "[malloc(1 << 30) for _ in range(9)]"])
def test_a_program_that_asks_for_more_than_there_is_gets_no_error_but_the_end_of_the_host(what: str) -> None:
    done = run_unified(f"{what}\nsay('an error came')")
    assert (done.returncode, done.stdout) == (OVERLOADED, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("frugal simulated GPU: the host is driven beyond its memory: ")
    assert line.endswith("a real one swaps, hangs or kills programs here")


def test_memory_of_others_is_not_there_to_be_had() -> None:
    assert run_unified("malloc(4 << 30)", FRUGAL_SIM_HOST_OTHERS="5GiB").returncode == OVERLOADED
    assert run_unified("malloc(4 << 30)", FRUGAL_SIM_HOST_OTHERS="1GiB").returncode == 0


def test_the_management_library_knows_of_no_memory() -> None:
    code = """
device = ctypes.c_void_p()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
say(nvml.nvmlDeviceGetMemoryInfo(device, (ctypes.c_ulonglong * 3)()))
"""
    assert said(code) == [3]  # not supported
    assert said(code, unified=False) == [0]


@pytest.mark.parametrize(("counts", "most"), [("0", OWN), ("1", 2 * GIB + 512 * MIB + OWN)])
def test_a_control_group_has_its_limit_and_counts_the_gpus_memory_or_not(counts: str, most: int) -> None:
    code = """
malloc(2 << 30)
files = [open("/sys/fs/cgroup/memory." + name).read() for name in ("max", "current")]
say([open("/proc/self/cgroup").read(), *map(int, files)])
"""
    ((group, limit, current),) = said(code, FRUGAL_SIM_GROUP_LIMIT="3GiB", FRUGAL_SIM_GROUP_COUNTS_GPU=counts)
    assert (group, limit) == ("0::/\n", 3 * GIB)
    assert most - OWN < current < most


def test_a_host_without_a_group_has_no_limit() -> None:
    code = """
import os
try:
    open("/sys/fs/cgroup/memory.max")
except FileNotFoundError:
    say("none")
"""
    assert said(code) == ["none"]


def test_programs_read_all_other_files_as_they_are(tmp_path) -> None:
    path = tmp_path / "file"
    code = f"""
import os
with open({str(path)!r}, "w") as file:
    file.write("written")
descriptor = os.open("made", os.O_CREAT | os.O_WRONLY, 0o640, dir_fd=os.open({str(tmp_path)!r}, os.O_RDONLY))
say([open({str(path)!r}).read(), oct(os.fstat(descriptor).st_mode & 0o777), open("/proc/self/comm").read()])
"""
    umask = os.umask(0o022)
    try:
        ((text, mode, _),) = said(code)
    finally:
        os.umask(umask)
    assert (text, mode) == ("written", "0o640")


def test_one_gpu_has_the_hosts_memory() -> None:
    base = dict(os.environ) | {"FRUGAL_SIM_UNIFIED": "1"}
    done = run("", MEMORY, gpu={"gpus": 2, "base": base})
    assert done.returncode == 2
    assert done.stderr.startswith("frugal simulated GPU: FRUGAL_SIM_UNIFIED='1' goes with one GPU")


def test_the_command_runs_a_program_with_it() -> None:
    code = "import ctypes; c = ctypes.CDLL('libcudart.so.13'); v = ctypes.c_int(); "
    code += "c.cudaDeviceGetAttribute(ctypes.byref(v), 18, 0); print(v.value)"
    command = [sys.executable, "-m", "frugal_alloc", "simulate", "--memory", "8GiB", "--unified", "--"]
    done = subprocess.run(
        [*command, sys.executable, "-c", code], env=package_first(dict(os.environ)), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
