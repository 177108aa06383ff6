"""The CUDA 12 runtime, called as a program built with CUDA 12 calls it; no such PyTorch is needed."""

from __future__ import annotations

import pytest
from checkout import GIB, output_of

# In a process that has loaded nothing but the preloaded libraries.
PREPARE = """
import ctypes
from ctypes import byref, c_char, c_int, c_size_t, c_uint64, c_ulonglong, c_void_p
cuda12, cuda13 = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL("libcudart.so.13")
used = ctypes.CDLL(None).frugal_sim_memory_used
used.restype = c_uint64
stream, pointer = c_void_p(), c_void_p()
def call(function, *arguments):
    error = function(*arguments)
    assert error == 0, (function.__name__, error)
call(cuda12.cudaStreamCreate, byref(stream))
"""


def output(code: str) -> str:
    return output_of(PREPARE + code)


def test_it_says_that_it_is_cuda_12() -> None:
    out = output("v = c_int(); call(cuda12.cudaRuntimeGetVersion, byref(v)); print(v.value)")
    assert out == "12000\n"


def test_both_runtimes_share_the_gpu() -> None:
    out = output(
        "call(cuda12.cudaMalloc, byref(pointer), c_size_t(64 << 20))\n"
        "print(used(0))\n"
        "call(cuda13.cudaFree, pointer)\n"
        "print(used(0))\n"
    )
    assert out == f"{64 << 20}\n0\n"


def test_device_properties_have_the_layout_of_cuda_12() -> None:
    # Offsets and size by CUDA 12's driver_types.h.
    out = output(
        "p = (c_char * 1064)(*b'~' * 1064)\n"
        "call(cuda12.cudaGetDeviceProperties_v2, p, 0)\n"
        "def number(at): return c_int.from_buffer(p, at).value\n"
        "print(ctypes.string_at(p).decode(), c_size_t.from_buffer(p, 288).value, sep='|')\n"
        "print('capability', number(360), number(364), 'warp', number(308), 'processors', number(388))\n"
        "print(set(bytes(p)[1032:]) == {ord('~')})\n"
    )
    assert out.splitlines() == [f"Simulated GPU|{2 * GIB}", "capability 9 0 warp 32 processors 132", "True"]


@pytest.mark.parametrize("version", ["", "_v2", "_v3"])
def test_each_version_of_capture_info_takes_its_own_arguments(version: str) -> None:
    out = output(
        "status, id, graph, nodes, edges = c_int(), c_ulonglong(), c_void_p(), c_void_p(), c_void_p()\n"
        "count = c_size_t(9)\n"
        "call(cuda12.cudaStreamBeginCapture, stream, 2)\n"
        "versions = {'': [], '_v2': [byref(graph), byref(nodes), byref(count)],\n"
        "            '_v3': [byref(graph), byref(nodes), byref(edges), byref(count)]}\n"
        f"more = versions[{version!r}]\n"
        f"call(cuda12.cudaStreamGetCaptureInfo{version}, stream, byref(status), byref(id), *more)\n"
        "print(status.value, id.value > 0, bool(graph), count.value)\n"
    )
    assert out == f"1 True {version != ''} {0 if version else 9}\n"


def test_pointer_attributes_are_not_written_past_their_end() -> None:
    # CUDA 13 made the struct larger: 24 bytes here.
    out = output(
        "call(cuda12.cudaMalloc, byref(pointer), c_size_t(2 << 20))\n"
        "attributes = (c_char * 128)(*b'~' * 128)\n"
        "call(cuda12.cudaPointerGetAttributes, attributes, pointer)\n"
        "print(c_int.from_buffer(attributes).value, c_void_p.from_buffer(attributes, 8).value == pointer.value)\n"
        "print(set(bytes(attributes)[24:]) == {ord('~')})\n"
    )
    assert out == "2 True\nTrue\n"


def test_what_cuda_12_has_and_is_not_simulated_is_refused() -> None:
    out = output("print(cuda12.cudaOccupancyMaxActiveClusters(0, 0, 0))")
    assert out == "801\n"  # cudaErrorNotSupported
