"""The custom all-reduce of inference servers: the inputs of captured calls are opened by the other ranks.

At the end of a capture vLLM and SGLang call cudaIpcGetMemHandle on each of them, and vLLM ends the process where that
fails. It takes memory of cudaMalloc alone, such as a graph's own. An input that is older than the capture may be mapped
memory of ours. A copy, made within the capture, takes its place. Each rank decides for itself, so none waits for
another.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import warnings
from typing import Any

from .._common import startup
from . import pytorch
from .cuda_malloc import CudaMalloc

# The modules and their classes, whose method has this name in all of them.
_CLASSES = {
    "vllm.distributed.device_communicators.custom_all_reduce": "CustomAllreduce",
    "sglang.srt.distributed.device_communicators.custom_all_reduce": "CustomAllreduce",
    "sglang.srt.distributed.device_communicators.custom_all_reduce_v2": "CustomAllReduceV2",
}
_METHOD = "custom_all_reduce"

_TAKES_IPC_HANDLE = 10  # CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE


def copy_inputs() -> None:
    """Sees to the classes that are imported, and to those that will be."""
    for module, name in _CLASSES.items():
        startup.after_import(module, functools.partial(_see_to, module, name))


def _see_to(module: str, name: str) -> None:
    pytorch.replace(getattr(sys.modules[module], name, None), _METHOD, _copying)


def _copying(method: Any) -> Any:
    def with_input_that_others_can_open(self: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_to_be_copied(self, input):
            _warn_once()
            with CudaMalloc():
                input = input.clone()
        return method(self, input, *args, **kwargs)

    return with_input_that_others_can_open


def _is_to_be_copied(communicator: Any, input: Any) -> bool:
    import torch

    # One that it leaves to NCCL needs no copy.
    return (
        torch.cuda.is_current_stream_capturing()
        and communicator.should_custom_ar(input)
        and not _others_can_open(input.data_ptr())
    )


def _others_can_open(address: int) -> bool:
    answer = ctypes.c_int(1)  # where the driver gives none
    ctypes.CDLL("libcuda.so.1").cuPointerGetAttribute(
        ctypes.byref(answer), ctypes.c_int(_TAKES_IPC_HANDLE), ctypes.c_uint64(address)
    )
    return bool(answer.value)


@functools.cache
def _warn_once() -> None:
    # A program may have made warnings errors, which is no reason to break off a capture on one rank.
    with contextlib.suppress(RuntimeWarning):
        warnings.warn(
            "frugal_alloc copies the inputs of captured custom all-reduces that lie in mapped memory, since other "
            "processes cannot open it; make them within frugal_alloc.cuda_malloc() to save the copies",
            RuntimeWarning,
            stacklevel=3,
        )
