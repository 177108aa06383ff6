"""PyTorch on a simulated GPU of a certain model: what it chooses, and what is said of what it does."""

from __future__ import annotations

import pytest
import simulated_gpu
from checkout import GIB, output_of, run
from simulated_gpu import ModelledMachine

ADA = "name=NVIDIA GeForce RTX 4090,capability=8.9,multiprocessors=128,l2=72MiB"
UNSUPPORTED = 8

# What the observer hears: the kind, and the bytes.
OBSERVE = """
import ctypes, torch
import torch.nn.functional as F
control = ctypes.CDLL(None)
heard = []
Observer = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_uint64, ctypes.c_int64)
observer = Observer(lambda kind, address, size: heard.append((kind, size)))
control.frugal_sim_set_observer(observer)
"""

CONVOLUTION = (
    OBSERVE
    + """
def workspaces(layout, dtype):
    images = torch.zeros(32, 64, 56, 56, device="cuda", dtype=dtype).to(memory_format=layout).requires_grad_()
    filters = torch.zeros(128, 64, 3, 3, device="cuda", dtype=dtype).to(memory_format=layout).requires_grad_()
    heard.clear()
    F.conv2d(images, filters, padding=1).sum().backward()
    return [size for kind, size in heard if kind == 2]
print(workspaces(torch.contiguous_format, torch.half))
print(workspaces(torch.channels_last, torch.half))
print(workspaces(torch.contiguous_format, torch.double))
print(workspaces(torch.contiguous_format, torch.float))
print(workspaces(torch.channels_last, torch.float))
"""
)
# Numbers in the input, the filter and the output of that convolution.
FILTER = 128 * 64 * 3 * 3
OUTPUT = 32 * 128 * 56 * 56
CONVERTED = 32 * 64 * 56 * 56 + FILTER + OUTPUT


def run_well(program: str, machine: ModelledMachine, **variables: str) -> str:
    return output_of(program, 24 * GIB, gpu={"machine": machine}, **variables)


@pytest.mark.parametrize(("capability", "workspace"), [("8.9", 8519680), ("9.0", 32 << 20)])
def test_pytorch_gives_cublas_what_it_chooses_by_the_capability(capability: str, workspace: int):
    out = run_well(
        OBSERVE + "a = torch.zeros(64, 64, device='cuda'); heard.clear(); a @ a; print(heard[0])",
        ModelledMachine(gpu=f"capability={capability}"),
    )
    assert out == f"(2, {workspace})\n"


def test_convolutions_convert_what_tensor_cores_cannot_take():
    parts = 128 // 5  # of the sum over all pixels: the gradient has five tiles
    out = run_well(CONVOLUTION, ModelledMachine(gpu=ADA)).splitlines()
    sums = 4 * parts * FILTER
    assert sorted(eval(out[0])) == [2 * CONVERTED, 2 * CONVERTED, 2 * CONVERTED + sums]
    assert eval(out[1]) == [sums]
    assert eval(out[2]) == [sums], "there are no tensor cores for it that convert"
    assert sorted(eval(out[3])) == [4 * (CONVERTED - OUTPUT), 4 * CONVERTED, 4 * CONVERTED + sums]
    assert sorted(eval(out[4])) == [sums, 4 * OUTPUT], "such a result is written with its channels apart"


def test_workspaces_are_modelled_only_where_that_is_asked_for():
    assert run_well(CONVOLUTION, ModelledMachine()) == "[]\n" * 5
    assert run_well(CONVOLUTION, ModelledMachine(gpu=ADA), FRUGAL_SIM_WORKSPACES="plain") == "[]\n" * 5
    assert run_well(CONVOLUTION, ModelledMachine(), FRUGAL_SIM_WORKSPACES="modelled").count("[]") == 0


def test_workspace_that_is_given_takes_the_models_place():
    out = run_well(CONVOLUTION, ModelledMachine(gpu=ADA), FRUGAL_SIM_CUDNN_WORKSPACE="4096")
    assert {size for line in out.splitlines() for size in eval(line)} == {4096}


def test_observer_hears_of_inputs_and_of_each_librarys_workspace():
    out = run_well(
        OBSERVE
        + """
a = torch.zeros(100, 100).cuda()
print(heard)
for work in (torch.linalg.eigh, torch.linalg.qr, torch.fft.fft, lambda a: F.linear(a, a, a[0])):
    heard.clear()
    work(a)
    print({kind for kind, size in heard})
lstm = torch.nn.LSTM(64, 128).cuda()
heard.clear()
lstm(torch.zeros(10, 4, 64, device="cuda"))[0].sum().backward()
print(heard)
""",
        ModelledMachine(gpu=ADA),
    ).splitlines()
    assert out[0] == "[(1, 40000)]"
    assert out[1:5] == ["{2}"] * 4
    products = 10 * 4 * 4 * 128 * 4
    assert out[5] == str([(2, products)] * 3)


def test_function_that_is_not_simulated_is_named_or_ends_the_process():
    program = """
import ctypes
control = ctypes.CDLL("libcudart.so.13")
control.frugal_sim_unsupported_functions.restype = ctypes.c_char_p
print(control.cudaLibraryUnload(), ctypes.CDLL("libcublas.so.13").cublasGetVectorAsync(None), flush=True)
print(control.frugal_sim_unsupported_functions().decode())
"""
    assert run_well(program, ModelledMachine()) == "801 15\ncudaLibraryUnload cublasGetVectorAsync\n"
    done = run(program, 24 * GIB, gpu={"machine": ModelledMachine(ends_unsupported=True)})
    assert (done.returncode, done.stdout) == (UNSUPPORTED, "")
    assert done.stderr == "frugal simulated GPU: the program called cudaLibraryUnload, which is not simulated\n"


def test_machine_that_keeps_nothing_computes_no_values():
    with pytest.raises(simulated_gpu.SimulationError, match="FRUGAL_SIM_KEEP"):
        simulated_gpu.environment(GIB, values="cpu", machine=ModelledMachine(kept=1 << 20))
