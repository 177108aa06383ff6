"""Errors of libraries that are memory running out under another name: told if the GPU is full, and only then."""

from __future__ import annotations

import re
import sys
import threading
from typing import Any

import frugal_alloc
import pytest
import torch
from binding_helpers import MIB, collect, empty, room
from frugal_alloc._common.messages import format_bytes as size
from frugal_alloc._out_of_memory import disguises

DISGUISES = (
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "Unable to find a valid cuDNN algorithm to run convolution",
    "GET was unable to find an engine to execute this computation",
    "FIND was unable to find an engine to execute this computation",
    "CUDA error: out of memory",
    "CUDA error: unspecified launch failure",
    "after cudaMalloc: cudaErrorMemoryAllocation: out of memory",
    "std::bad_alloc: out_of_memory: CUDA error at: rmm/mr/cuda_memory_resource.hpp",
    "NCCL error: unhandled cuda error, Cuda failure 2 'out of memory'",
)


@pytest.fixture(scope="module")
def full() -> Any:
    ours = empty(MIB)
    with room(12 * MIB):
        yield
    del ours


def explain(text: str) -> str | None:
    return disguises.explain(RuntimeError(text))


@pytest.mark.parametrize("text", DISGUISES)
def test_nothing_is_said_while_the_gpu_has_room(text: str) -> None:
    collect()
    torch.cuda.empty_cache()
    assert explain(text) is None


@pytest.mark.parametrize("text", DISGUISES)
def test_disguise_is_told_when_the_gpu_is_full(full: None, text: str) -> None:
    told = explain(text)
    assert told is not None
    free, total = torch.cuda.mem_get_info()
    assert free < 14 * MIB
    assert f"{size(free)} free of {size(total)}" in told.replace("\n", " ")
    assert re.search(r"FRUGAL_ALLOC_CONF=memory_limit:\d\d%", told.replace("\n", " "))
    assert all(len(line) <= 100 for line in told.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: device-side assert triggered",
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        "CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasSgemm`",
        "CUDA error: an illegal memory access was encountered",
        "algorithm not implemented",
    ],
)
def test_other_errors_are_left_alone_on_a_full_gpu(full: None, text: str) -> None:
    assert explain(text) is None


def test_pytorchs_own_error_has_been_explained_already(full: None) -> None:
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert disguises.explain(error) is None
    raised = RuntimeError("Caught RuntimeError in replica 0: CUDA error: out of memory")
    raised.__cause__ = error
    assert disguises.recognise(raised) is not None


def test_cause_counts_as_the_error(full: None) -> None:
    error = ValueError("training failed")
    error.__cause__ = RuntimeError(DISGUISES[0])
    assert disguises.explain(error) is not None


def test_pinned_memory_is_the_hosts_also_where_the_gpu_has_room() -> None:
    text = explain("Caught RuntimeError in pin memory thread for device 0.\nRuntimeError: CUDA error: out of memory")
    assert text is not None and "the host's memory, not the GPU's" in text
    assert "memory_limit" not in text


def test_limit_that_is_advised_leaves_room(full: None) -> None:
    told = explain(DISGUISES[0]).replace("\n", " ")
    percent = int(told.partition("memory_limit:")[2].partition("%")[0])
    free, total = torch.cuda.mem_get_info()
    others = total - free - torch.cuda.memory_reserved()
    assert total - others - total * percent // 100 >= disguises.LIBRARIES_NEED_BYTES


def test_hooks_that_were_there_go_on_and_come_back(monkeypatch: Any) -> None:
    frugal_alloc.disable()
    calls: list[str] = []

    def of_program(kind: Any, error: Any, traceback: Any) -> None:
        calls.append(f"program {error}")

    def of_thread(arguments: Any) -> None:
        calls.append(f"thread {arguments.exc_value}")

    monkeypatch.setattr(sys, "excepthook", of_program)
    monkeypatch.setattr(threading, "excepthook", of_thread)
    frugal_alloc.enable()
    assert sys.excepthook is not of_program
    sys.excepthook(ValueError, ValueError("one"), None)
    thread = threading.Thread(target=lambda: int("two"))
    thread.start()
    thread.join()
    assert calls == ["program one", "thread invalid literal for int() with base 10: 'two'"]
    frugal_alloc.disable()
    assert (sys.excepthook, threading.excepthook) == (of_program, of_thread)


def test_hook_that_was_set_over_ours_stays(monkeypatch: Any) -> None:
    frugal_alloc.enable()
    calls: list[Any] = []
    ours = sys.excepthook

    def over_ours(kind: Any, error: Any, traceback: Any) -> None:
        calls.append(error)
        ours(kind, error, traceback)

    monkeypatch.setattr(sys, "excepthook", over_ours)
    frugal_alloc.disable()
    assert sys.excepthook is over_ours
    frugal_alloc.enable()
    error = ValueError("shown")
    sys.excepthook(ValueError, error, None)
    assert calls == [error]
