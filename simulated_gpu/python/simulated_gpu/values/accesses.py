"""Declares what PyTorch's operators read and write, for the simulated GPU's order checker (FRUGAL_SIM_ORDER=1) and its
late work (FRUGAL_SIM_LATE=1).

The simulated kernels do nothing, so both would see copies and fills alone. While the mode is on, each operator
declares the memory of its tensors on the current stream, once it has run: what it makes, and what its schema says it
writes, as written; the rest as read. Operators that a CUDA graph captures declare nodes of the graph.

Not declared is what a program launches past PyTorch's operators (Triton, kernels of its own); NCCL's stand-in
declares what it reads and writes itself.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .computation import Call, is_cuda, is_plain, tensors_of
from .mode import enter_in_all_threads

# They see to a tensor's memory and not to what is in it.
WITHOUT_ACCESS = {"is_pinned", "record_stream", "resize_", "set_", "_resize_output_"}
# Copies to the host, as those are that make a tensor there: the simulated runtime sees them, and they are over by then.
TO_HOST = {"_local_scalar_dense"}
# Not on the current stream.
WITHOUT_STREAM = ("c10d::", "_c10d_functional::")
# A tensor in more pieces than this counts as all that lies between its first byte and its last.
MOST_RUNS = 256


def _runs(tensor: torch.Tensor) -> Iterator[tuple[int, int]]:
    """The addresses and sizes of the pieces that the tensor's elements make up."""
    try:
        start, run = tensor.data_ptr(), tensor.element_size()
    except RuntimeError:  # it sleeps, and so the operator has not asked for its data
        return
    outer = []
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        step = stride * tensor.element_size()
        if size == 1 or step == 0:
            continue
        if not outer and step <= run:
            run += step * (size - 1)
        else:
            outer.append((step, size))
    if math.prod(size for _, size in outer) > MOST_RUNS:
        yield start, run + sum(step * (size - 1) for step, size in outer)
        return
    for place in itertools.product(*(range(size) for _, size in outer)):
        yield start + sum(step * i for (step, _), i in zip(outer, place, strict=True)), run


def _is_on_gpu(tensor: torch.Tensor) -> bool:
    """Whether it has memory of its own there."""
    return is_cuda(tensor) and is_plain(tensor) and tensor.numel() > 0


class _Declare(TorchDispatchMode):
    """Sees every operator of its thread, and of the autograd threads that work for it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Else PyTorch loads all of torch.compile at the first operator, which takes as long as loading PyTorch does.
        return False

    def __init__(self) -> None:
        super().__init__()
        self._touch = ctypes.CDLL(None).frugal_sim_touch
        self._touch.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p]

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        run = self._run_uncompiled if "torch._dynamo" in sys.modules else self._run
        return run(func, args, kwargs or {})

    def _run(self, func: Any, args: tuple, kwargs: dict) -> Any:
        call = Call(func, args, kwargs)
        result = call.run()
        if call.name not in WITHOUT_ACCESS | TO_HOST and not func._schema.name.startswith(WITHOUT_STREAM):
            self._declare(call)
        return result

    # For a program that compiles, no part of which is what we run.
    _run_uncompiled = torch._disable_dynamo(_run)

    def _declare(self, call: Call) -> None:
        name, results = call.func._schema.name, tensors_of(call.result)
        given = list(filter(_is_on_gpu, call.tensors))
        written = list(filter(_is_on_gpu, call.targets))
        written_ids = {id(tensor) for tensor in written}
        given_memory = {tensor.untyped_storage()._cdata for tensor in given}
        made = list(filter(_is_on_gpu, results))
        new = [tensor for tensor in made if tensor.untyped_storage()._cdata not in given_memory]
        if not written and not new and made:
            return  # a view
        on_host = any(tensor.device.type == "cpu" for tensor in results)
        from_host = any(tensor.device.type == "cpu" and tensor.dim() for tensor in call.tensors)
        if on_host or from_host or len({tensor.device for tensor in written + new + given}) != 1:
            return  # a copy, which the simulated runtime sees
        for tensor in given:
            if id(tensor) not in written_ids:
                self._touch_all(name, tensor, writes=False)
        for tensor in written + new:
            self._touch_all(name, tensor, writes=True)

    def _touch_all(self, name: str, tensor: torch.Tensor, *, writes: bool) -> None:
        with torch.cuda.device(tensor.device):
            stream = torch.cuda.current_stream().cuda_stream
            for start, size in _runs(tensor):
                self._touch(stream, start, size, int(writes), name.encode())


def start() -> None:
    """From here on, this process's operators on CUDA tensors are declared; call it once torch is imported."""
    enter_in_all_threads(_Declare())
