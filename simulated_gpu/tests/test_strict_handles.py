"""A handle of what was destroyed, or never was, ends the process in strict mode, and is an error otherwise."""

from __future__ import annotations

import os

import pytest
from checkout import output_of, run

ENDED = 6

# Programs of the driver and the runtime alone, without PyTorch: quick to start.
PRELUDE = """
import ctypes
cuda, cudart = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libcudart.so.13")
P, byref = ctypes.c_void_p, ctypes.byref

def check(status):
    assert status == 0, status

check(cudart.cudaSetDevice(0))

def new_stream():
    stream = P()
    check(cudart.cudaStreamCreateWithFlags(byref(stream), 1))
    return stream

def new_event():
    event = P()
    check(cudart.cudaEventCreate(byref(event)))
    return event
"""

GREEN = """
resource, part, rest = (ctypes.create_string_buffer(144) for _ in range(3))
description, green, context, groups = P(), P(), P(), ctypes.c_uint(1)
check(cuda.cuDeviceGetDevResource(0, resource, 1))
check(cuda.cuDevSmResourceSplitByCount(part, byref(groups), resource, rest, 0, 16))
check(cuda.cuDevResourceGenerateDesc(byref(description), part, 1))
check(cuda.cuGreenCtxCreate(byref(green), description, 0, 1))
check(cuda.cuCtxFromGreenCtx(byref(context), green))
"""

# What is done with a dead handle, the function and the words that are told, and the error without strict mode.
USES = {
    "query of a destroyed stream": (
        "s = new_stream(); check(cudart.cudaStreamDestroy(s)); status = cudart.cudaStreamQuery(s)",
        "cudaStreamQuery was given the stream",
        "stream 1 of GPU 0, destroyed",
        400,
    ),
    "kernel on a destroyed stream": (
        "s = new_stream(); check(cudart.cudaStreamDestroy(s))\n"
        "status = cuda.cuLaunchKernel(P(48), 1, 1, 1, 1, 1, 1, 0, s, P(), P())",
        "cuLaunchKernel was given the stream",
        "stream 1 of GPU 0, destroyed",
        400,
    ),
    "copy on what never was a stream": (
        "status = cudart.cudaMemsetAsync(P(), 0, ctypes.c_size_t(0), P(0x4321))",
        "cudaMemsetAsync was given the stream 0x4321",
        "never a stream",
        400,
    ),
    "second destruction of a stream": (
        "s = new_stream(); check(cuda.cuStreamDestroy_v2(s)); status = cuda.cuStreamDestroy_v2(s)",
        "cuStreamDestroy_v2 was given the stream",
        "stream 1 of GPU 0, destroyed",
        400,
    ),
    "event recorded on a destroyed stream": (
        "s, e = new_stream(), new_event(); check(cudart.cudaStreamDestroy(s)); status = cuda.cuEventRecord(e, s)",
        "cuEventRecord was given the stream",
        "stream 1 of GPU 0, destroyed",
        400,
    ),
    "wait for a destroyed event": (
        "e = new_event(); check(cudart.cudaEventDestroy(e)); status = cudart.cudaStreamWaitEvent(new_stream(), e, 0)",
        "cudaStreamWaitEvent was given the event",
        "event 1 of GPU 0, destroyed",
        400,
    ),
    "query of what never was an event": (
        "status = cuda.cuEventQuery(P(0x4321))",
        "cuEventQuery was given the event 0x4321",
        "never an event",
        400,
    ),
    "destroyed green context made current": (
        GREEN + "check(cuda.cuGreenCtxDestroy(green)); status = cuda.cuCtxPushCurrent_v2(context)",
        "cuCtxPushCurrent_v2 was given the context",
        "green context 2 of GPU 0, destroyed",
        709,
    ),
    "green context destroyed while it is current": (
        GREEN
        + "check(cuda.cuCtxPushCurrent_v2(context)); check(cuda.cuGreenCtxDestroy(green)); s = P()\n"
        + "status = cuda.cuStreamCreate(byref(s), 1)",
        "cuStreamCreate was given the current context",
        "green context 2 of GPU 0, destroyed",
        709,
    ),
    "stream of a destroyed green context": (
        GREEN
        + "check(cuda.cuGreenCtxDestroy(green)); s = P(); status = cuda.cuGreenCtxStreamCreate(byref(s), green, 1, 0)",
        "cuGreenCtxStreamCreate was given the green context",
        "green context 2 of GPU 0, destroyed",
        709,
    ),
    "what never was a context": (
        "status = cuda.cuCtxSetCurrent(P(0x4321))",
        "cuCtxSetCurrent was given the context 0x4321",
        "never a context",
        201,
    ),
}


@pytest.mark.parametrize("use", USES)
def test_use_of_a_dead_handle_ends_the_process_and_names_it(use):
    program, function, was, _ = USES[use]
    done = run(f"{PRELUDE}{program}\nprint('went on')", FRUGAL_SIM_STRICT="1")
    assert done.returncode == ENDED, done.stdout + done.stderr
    assert "went on" not in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"frugal simulated GPU: {function}")
    assert line.endswith(f": {was}")


@pytest.mark.parametrize("use", USES)
def test_use_of_a_dead_handle_is_an_error_without_strict_mode(use):
    program, _, _, error = USES[use]
    assert output_of(f"{PRELUDE}{program}\nprint(status)", FRUGAL_SIM_STRICT="0") == f"{error}\n"


def test_tests_are_strict():
    assert os.environ["FRUGAL_SIM_STRICT"] == "1"


EXTERNAL = (
    PRELUDE
    + """
import torch
stream = new_stream()
external = torch.cuda.ExternalStream(stream.value)
with torch.cuda.stream(external):
    tensor = torch.ones(1 << 20, device="cuda")
    other = torch.ones(1 << 20, device="cuda")
torch.cuda.synchronize()
check(cudart.cudaStreamDestroy(stream))
"""
)


def test_memory_of_an_external_stream_outlives_it_with_native():
    program = (
        EXTERNAL + "del tensor\nmore = [torch.ones(1 << 20, device='cuda') for _ in range(4)]\nprint(other.cpu()[0])"
    )
    assert output_of(program, FRUGAL_SIM_STRICT="1") == "tensor(1.)\n"


def test_external_stream_that_is_used_after_its_destruction_ends_the_process():
    done = run(EXTERNAL + "external.synchronize()", FRUGAL_SIM_STRICT="1")
    assert done.returncode == ENDED, done.stdout + done.stderr
    assert "cudaStreamSynchronize was given the stream" in done.stderr
