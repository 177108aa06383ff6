"""The simulated GPU's memory as the CPU's operators take it."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch


def is_cuda(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def is_plain(tensor: torch.Tensor) -> bool:
    """Dense, with memory of its own: neither a subclass that wraps others nor sparse."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided


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
    if storage.nbytes() == 0:
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    memory = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), torch.device("cpu"), storage.nbytes())
    view = torch.empty(0, dtype=tensor.dtype).set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj():
        view = view.conj()
    return torch._neg_view(view) if tensor.is_neg() else view


def placed(value: Any, device: torch.device) -> Any:
    """What the CPU has computed, on the GPU; no copy is made there, which would be a call of the driver's."""
    if not isinstance(value, torch.Tensor):
        return value
    result = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    host_view(result).copy_(value)
    return result
