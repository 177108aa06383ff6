"""One call of an operator, and how the CPU computes it, over the memory of the simulated GPU."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

_COMPRESSED_BY_ROW = (torch.sparse_csr, torch.sparse_bsr)
_SPARSE = (torch.sparse_coo, *_COMPRESSED_BY_ROW, torch.sparse_csc, torch.sparse_bsc)


def is_cuda(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def _is_of_pytorch(tensor: torch.Tensor) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def is_plain(tensor: torch.Tensor) -> bool:
    """Dense, with memory of its own: neither a subclass that wraps others nor sparse."""
    return _is_of_pytorch(tensor) and tensor.layout == torch.strided


def is_sparse(value: Any) -> bool:
    """Of PyTorch's own kinds, on a GPU or not; no subclass."""
    return _is_of_pytorch(value) and value.layout in _SPARSE


def memory(tensor: torch.Tensor) -> int:
    """The same for tensors that share memory; 0: it has none. Of one that sleeps, too, which has no ``data_ptr()``."""
    storage = tensor.untyped_storage()
    return storage._cdata if storage.nbytes() else 0


@functools.cache
def _most_kept() -> int:
    kept_bytes = ctypes.CDLL(None).frugal_sim_kept_bytes
    kept_bytes.restype = ctypes.c_uint64
    return kept_bytes()


def is_kept(tensor: torch.Tensor) -> bool:
    """Whether a copy or a fill of as much memory puts something there."""
    return tensor.numel() * tensor.element_size() <= _most_kept()


def host_view(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as a CPU tensor, which owns nothing and must not outlive it."""
    storage = tensor.untyped_storage()
    # Not torch.empty, which some libraries replace by one that makes tensors on the GPU.
    nothing = torch.ops.aten.empty.memory_format([0], dtype=tensor.dtype, device="cpu")
    if storage.nbytes() == 0:
        return nothing.new_empty(tensor.shape)
    memory = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), torch.device("cpu"), storage.nbytes())
    view = nothing.set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj():
        view = view.conj()
    return torch._neg_view(view) if tensor.is_neg() else view


def _sparse_on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The same matrix over the same memory: its parts are dense."""
    if tensor.layout == torch.sparse_coo:
        indices, values = host_view(tensor._indices()), host_view(tensor._values())
        return torch.sparse_coo_tensor(
            indices, values, tensor.shape, is_coalesced=tensor.is_coalesced(), check_invariants=False
        )
    if tensor.layout in _COMPRESSED_BY_ROW:
        compressed, plain = tensor.crow_indices(), tensor.col_indices()
    else:
        compressed, plain = tensor.ccol_indices(), tensor.row_indices()
    parts = (host_view(part) for part in (compressed, plain, tensor.values()))
    return torch.sparse_compressed_tensor(*parts, tensor.shape, layout=tensor.layout, check_invariants=False)


def on_host(value: Any) -> Any:
    """An argument of a GPU's operator as the CPU's takes it: the same memory; must not outlive the argument."""
    if is_cuda(value):
        return host_view(value) if is_plain(value) else _sparse_on_host(value)
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return None if isinstance(value, torch.Generator) else value


def placed(value: Any, device: torch.device) -> Any:
    """What the CPU has computed, on the GPU; of a dense one no copy is made there, which would be a driver call."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout != torch.strided:
        return value.to(device)
    result = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    host_view(result).copy_(value)
    return result


# --- A call.


def leaves(*values: Any) -> list:
    """What an operator's arguments or results are made of: these are values, or lists of them. As tree_leaves(), which
    takes any structure and ten times as long."""
    result = []
    for value in values:
        if isinstance(value, (list, tuple)):
            result += leaves(*value)
        elif isinstance(value, dict):
            result += leaves(*value.values())
        else:
            result.append(value)
    return result


def tensors_of(*values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(*values) if isinstance(leaf, torch.Tensor)]


@functools.cache
def _written_arguments(func: Any) -> list[tuple[int, str]]:
    """Their places and names; the place of one that has a name alone is after all others."""
    arguments = func._schema.arguments
    is_written = [argument.alias_info is not None and argument.alias_info.is_write for argument in arguments]
    return [
        (len(arguments) if argument.kwarg_only else i, argument.name)
        for i, argument in enumerate(arguments)
        if is_written[i]
    ]


class Call:
    """An operator with its arguments, and, once it has run, what it has made."""

    def __init__(self, func: Any, args: tuple, kwargs: dict) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        self.name = func._schema.name.split("::")[1]
        self._values = leaves(args, kwargs)
        self.tensors = [leaf for leaf in self._values if isinstance(leaf, torch.Tensor)]
        self.result: Any = None

    def run(self) -> Any:
        self.result = self.func(*self.args, **self.kwargs)
        return self.result

    def is_on_gpu(self) -> bool:
        return any(is_cuda(leaf) or (isinstance(leaf, torch.device) and leaf.type == "cuda") for leaf in self._values)

    @functools.cached_property
    def inputs(self) -> list[torch.Tensor]:
        """The GPU's tensors among the arguments."""
        return [tensor for tensor in self.tensors if is_cuda(tensor)]

    @functools.cached_property
    def targets(self) -> list[torch.Tensor]:
        """The tensors among the arguments that the operator writes."""
        args, kwargs = self.args, self.kwargs
        return tensors_of([args[i] if i < len(args) else kwargs.get(name) for i, name in _written_arguments(self.func)])

    @functools.cached_property
    def fresh(self) -> list[torch.Tensor]:
        """Of the results, those that are not in the memory of a target."""
        in_place = {memory(tensor) for tensor in self.targets}
        return [tensor for tensor in tensors_of(self.result) if memory(tensor) not in in_place]

    @functools.cached_property
    def outputs(self) -> list[torch.Tensor]:
        """What it has written. Some operators, as those on lists of tensors, return nothing of it."""
        return [*self.targets, *self.fresh]

    def is_view(self) -> bool:
        read = {memory(tensor) for tensor in self.tensors}
        return not self.targets and all(memory(output) in read for output in self.fresh)

    def compute_first(self, read: Callable[[Any], Any] = on_host) -> Any:
        """In the place of the GPU's operator, whose result is as large as values say."""
        device = self.kwargs.get("device") or self.inputs[0].device
        return tree_map(lambda value: placed(value, device), Computation(self, read).compute())


def _without_output_type(func: Any, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
    """A product that names the type of its result, as a GPU alone has it, by the product in that type."""
    place = [argument.name for argument in func._schema.arguments].index("out_dtype")
    wide = tree_map(lambda value: value.to(args[place]) if isinstance(value, torch.Tensor) else value, args)
    plain = func.overloadpacket.out if func._overloadname.endswith("out") else func.overloadpacket.default
    return plain, (*wide[:place], *wide[place + 1 :]), kwargs


def _adapt(name: str, func: Any, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
    """The CPU's operator, and the arguments, that give the values that the GPU's gives with these."""
    if func._overloadname in ("dtype", "dtype_out") and name in ("mm", "bmm", "addmm", "baddbmm"):
        return _without_output_type(func, args, kwargs)
    if "pin_memory" in kwargs:
        kwargs["pin_memory"] = False
    if name in ("_softmax", "_log_softmax") and args[2]:
        # On a GPU alone, half precision can become float within the operator.
        return func, (args[0].float(), args[1], False), kwargs
    if name in ("_softmax_backward_data", "_log_softmax_backward_data"):
        # Likewise on the way back; storing the result narrows it.
        return func, (*args[:3], args[0].dtype), kwargs
    return func, args, kwargs


class Computation:
    """A call, ready to be computed on the CPU, once or at each replay of a graph.

    Holds views of memory and no CUDA tensor, so that it keeps nothing alive that the program lets go. If the call has
    run, what it has made gets the values.
    """

    def __init__(self, call: Call, read: Callable[[Any], Any] = on_host):
        """``read`` gives each argument as the CPU's operator takes it."""
        self.name = call.func._schema.name
        args, kwargs = tree_map(read, (call.args, call.kwargs))
        self._func, self._args, self._kwargs = _adapt(call.name, call.func, args, kwargs)
        in_place = {memory(tensor) for tensor in call.targets}
        self._outputs = [
            (i, on_host(leaf))
            for i, leaf in enumerate(leaves(call.result))
            if isinstance(leaf, torch.Tensor) and leaf.numel() > 0 and memory(leaf) not in in_place
        ]

    def compute(self) -> Any:
        return self._func(*self._args, **self._kwargs)

    def compute_and_store(self) -> Exception | None:
        """Returns why it could not be computed, if so."""
        try:
            values = leaves(self.compute())
        except (NotImplementedError, RuntimeError, IndexError) as error:
            # Its frames would keep all tensors of the program's functions until Python collects cycles.
            return error.with_traceback(None)
        for i, output in self._outputs:
            if isinstance(values[i], torch.Tensor) and values[i].shape == output.shape:
                output.copy_(values[i])
        return None
