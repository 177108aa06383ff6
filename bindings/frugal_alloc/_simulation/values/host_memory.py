"""The simulated GPU's memory, and what an operator takes of it, as the CPU's operators take it."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch

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


def address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


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
