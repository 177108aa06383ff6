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
import warnings
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from . import collectives, graphs
from .computation import Call, Computation, host_view, is_plain, is_sparse, on_host, placed, tensors_of
from .mode import ValuesMode

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
# They make a sparse tensor of a dense one.
MAKING_SPARSE = ("_to_sparse", "to_sparse")

_reported: set[str] = set()


def _report(name: str, error: Exception) -> None:
    if name not in _reported:
        _reported.add(name)
        reason = str(error).strip().partition("\n")[0][:200]
        print(f"simulated_gpu: the values of {name} are not computed: {reason}", file=sys.stderr)


def _compute(computation: Computation) -> None:
    error = computation.compute_and_store()
    if error is not None:
        _report(computation.name, error)


def _cpu_goes_first(call: Call) -> bool:
    if torch.cuda.is_current_stream_capturing():
        return False
    first = call.name in SHAPED_BY_VALUES or call.name in READ_BACK or call.name.startswith(MAKING_SPARSE)
    return first and not call.targets


def _takes_apart(call: Call) -> bool:
    """Whether the operator looks at a sparse tensor, or makes one of its parts, without looking at values."""
    name = call.name
    if name == "_coalesced_" or "sparse_coo_tensor" in name or "_tensor_unsafe" in name or name.startswith("sparse_co"):
        return not name.startswith("_validate")
    returns = call.func._schema.returns
    is_view = any(value.alias_info is not None and not value.alias_info.is_write for value in returns)
    return is_view or not any("Tensor" in str(value.type) for value in returns)


def _run_sparse(call: Call) -> Any:
    """With a sparse tensor among the arguments: there are as many entries as values say, so the CPU goes first."""
    if _takes_apart(call):
        return call.run()
    if not call.targets:
        return call.compute_first()
    # What is written is there already: a dense one over the same memory, a sparse one is brought back.
    host = {id(target): on_host(target) for target in call.targets}
    Computation(call, lambda value: host.get(id(value), on_host(value))).compute()
    for target in call.targets:
        if is_sparse(target):
            target.copy_(host[id(target)])
    return call.targets[0] if len(call.targets) == 1 else tuple(call.targets)


def _run_then_compute(call: Call) -> Any:
    capturing = torch.cuda.is_current_stream_capturing()
    # Fills and copies are real on the simulated GPU, and would be done twice.
    before = [] if capturing else [(on_host(tensor), on_host(tensor).clone()) for tensor in call.targets]
    result = call.run()
    if not all(map(is_plain, tensors_of(result))) or call.is_view():
        return result
    computation = Computation(call)
    if capturing:
        graphs.add(computation)
        return result
    for tensor, content in before:
        tensor.copy_(content)
    _compute(computation)
    return result


class EveryOperator(ValuesMode):
    def takes(self, tensor: torch.Tensor) -> bool:
        return is_plain(tensor) or is_sparse(tensor)

    def carry_out(self, call: Call) -> Any:
        if collectives.is_collective(call.func):
            return call.run()
        with _disable_current_modes(), torch.no_grad():
            if any(map(is_sparse, call.tensors)):
                return _run_sparse(call)
            return call.compute_first() if _cpu_goes_first(call) else _run_then_compute(call)


def _nonzero(tensor: torch.Tensor) -> torch.Tensor:
    """Called from within operators as well, which select by a mask."""
    return placed(host_view(tensor).nonzero(), tensor.device)


_library: torch.library.Library | None = None


def start() -> None:
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
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):  # from PyTorch 2.2 on
        torch.backends.cuda.enable_cudnn_sdp(False)
    graphs.start(_compute)
    EveryOperator().start()
