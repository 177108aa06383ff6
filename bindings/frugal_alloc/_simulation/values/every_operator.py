"""Computes values for programs on the simulated GPU, whose kernels do nothing (``--values cpu``).

The simulated memory is host memory at the very addresses that PyTorch sees. While the mode is on, each operator first
runs as it would (the allocator sees what it would see), and then once more on the CPU, over views of the same memory.
Operators that a CUDA graph captures are computed whenever the graph is replayed.

What is not as on a GPU, beside the time that it takes:

* Random numbers come from the CPU's default generator.
* Attention uses PyTorch's plain implementation and cuDNN is off, as their operators exist on GPUs alone.
* An operator without a CPU implementation is named once on stderr, and its values are left as they are. Fused LSTM and
  GRU cells are such, and whatever a program launches past PyTorch, as Triton does.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

from . import collectives, ctc_loss, failed_backward, graphs, printing, sparse
from .computation import (
    WITHOUT_VALUES,
    Computation,
    has_operators_of_its_own,
    leaves,
    run_higher_order,
    written,
)
from .host_memory import address, host_view, is_cuda, is_plain
from .operands import on_host

# The shape of the result depends on values, so the CPU has to go first.
SHAPED_BY_VALUES = {
    "_unique",
    "_unique2",
    "_validate_sparse_compressed_tensor_args",
    "_validate_sparse_coo_tensor_args",
    "bincount",
    "equal",
    "masked_select",
    "multinomial",
    "nms",
    "nonzero",
    "repeat_interleave",
    "unique_consecutive",
    "unique_dim",
}
# They look at values on their way.
READ_BACK = {"_linalg_check_errors", "_linalg_eigvals", "linalg_eig", "linalg_eigvals"}

_reported: set[str] = set()


def _report(name: str, error: Exception) -> None:
    if name not in _reported:
        _reported.add(name)
        reason = str(error).strip().partition("\n")[0][:200]
        print(f"frugal-alloc: the values of {name} are not computed: {reason}", file=sys.stderr)


def _compute(computation: Computation) -> None:
    error = computation.compute_and_store()
    if error is not None:
        _report(computation.name, error)


def _device(values: list, kwargs: dict) -> torch.device:
    """Where the results of an operator belong that the CPU has computed."""
    return kwargs.get("device") or next(leaf.device for leaf in values if is_cuda(leaf))


class _ComputeOnCpu(TorchDispatchMode):
    """Sees every operator of its thread, and of the autograd threads that work for it."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return run_higher_order(self, func, args, kwargs)
        values = leaves(args, kwargs)
        tensors = [leaf for leaf in values if isinstance(leaf, torch.Tensor)]
        if any(has_operators_of_its_own(tensor) for tensor in tensors):
            return NotImplemented
        name = func._schema.name.split("::")[1]
        on_gpu = any(is_cuda(leaf) or (isinstance(leaf, torch.device) and leaf.type == "cuda") for leaf in values)
        known = all(is_plain(tensor) or sparse.is_sparse(tensor) for tensor in tensors)
        if not on_gpu or not known or name in WITHOUT_VALUES or collectives.is_collective(func):
            return func(*args, **kwargs)
        with _disable_current_modes(), torch.no_grad():
            if any(sparse.is_sparse(tensor) for tensor in tensors):
                return self._run_sparse(func, args, kwargs, values)
            if self._cpu_goes_first(name, func, args, kwargs):
                return self._compute_first(func, args, kwargs, values)
            return self._run_then_compute(func, args, kwargs, values)

    def _cpu_goes_first(self, name: str, func: Any, args: tuple, kwargs: dict) -> bool:
        if torch.cuda.is_current_stream_capturing():
            return False
        first = name in SHAPED_BY_VALUES or name in READ_BACK or sparse.makes_sparse(func)
        return first and not written(func, args, kwargs)

    def _compute_first(self, func: Any, args: tuple, kwargs: dict, values: list) -> Any:
        device = _device(values, kwargs)
        return tree_map(
            lambda value: value.to(device) if isinstance(value, torch.Tensor) else value,
            Computation(func, args, kwargs).compute(),
        )

    def _run_sparse(self, func: Any, args: tuple, kwargs: dict, values: list) -> Any:
        """With a sparse tensor among the arguments: there are as many entries as values say, so the CPU goes first."""
        if sparse.takes_apart(func):
            return func(*args, **kwargs)
        targets = written(func, args, kwargs)
        if not targets:
            return self._compute_first(func, args, kwargs, values)
        # What is written is there already: a dense one over the same memory, a sparse one is brought back.
        host = {id(target): on_host(target) for target in targets}
        Computation(func, args, kwargs, lambda value: host.get(id(value), on_host(value))).compute()
        for target in targets:
            if sparse.is_sparse(target):
                target.copy_(host[id(target)])
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _run_then_compute(self, func: Any, args: tuple, kwargs: dict, values: list) -> Any:
        capturing = torch.cuda.is_current_stream_capturing()
        read = {address(leaf) for leaf in values if isinstance(leaf, torch.Tensor)}
        targets = written(func, args, kwargs)
        # Fills and copies are real on the simulated GPU, and would be done twice.
        before = [] if capturing else [(on_host(tensor), on_host(tensor).clone()) for tensor in targets]
        result = func(*args, **kwargs)
        outputs = [leaf for leaf in leaves(result) if isinstance(leaf, torch.Tensor) and is_plain(leaf)]
        if not targets and all(address(output) in read for output in outputs):
            return result  # a view
        computation = Computation(func, args, kwargs)
        computation.store_into(result, besides={address(tensor) for tensor in targets})
        if capturing:
            graphs.add(computation)
            return result
        for tensor, content in before:
            tensor.copy_(content)
        _compute(computation)
        return result


_mode = _ComputeOnCpu()


def _nonzero(tensor: torch.Tensor) -> torch.Tensor:
    """Called from within operators as well, which select by a mask."""
    return host_view(tensor).nonzero().to(tensor.device)


def _run_thread(wrapped: Callable, thread: threading.Thread) -> None:
    with _mode:
        wrapped(thread)


_library: torch.library.Library | None = None


def start(uncompiled: Callable) -> None:
    """From here on, this process's operators on CUDA tensors have values; call it once torch is imported."""
    global _library
    if _library is not None:
        return
    _library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the real one is replaced
        _library.impl("nonzero", _nonzero, "CUDA")
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    uncompiled(_ComputeOnCpu.__torch_dispatch__, calls_ours_only=True)
    printing.start()
    ctc_loss.start()
    failed_backward.start()
    graphs.start(_compute)
    # Modes are per thread, and threads do not inherit them.
    graphs.wrap(threading.Thread, "_bootstrap_inner", _run_thread)
    _mode.__enter__()
