"""Sparse tensors on the simulated GPU: their parts are dense, and so is the memory that the CPU's operators take."""

from __future__ import annotations

from typing import Any

import torch

from .host_memory import host_view

COMPRESSED_BY_ROW = (torch.sparse_csr, torch.sparse_bsr)
COMPRESSED = (*COMPRESSED_BY_ROW, torch.sparse_csc, torch.sparse_bsc)


def is_sparse(value: Any) -> bool:
    """Of PyTorch's own kinds, on a GPU or not; no subclass."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout in (torch.sparse_coo, *COMPRESSED)


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """The same matrix as a sparse CPU tensor, over the same memory; must not outlive it."""
    if tensor.layout == torch.sparse_coo:
        indices, values = host_view(tensor._indices()), host_view(tensor._values())
        return torch.sparse_coo_tensor(
            indices, values, tensor.shape, is_coalesced=tensor.is_coalesced(), check_invariants=False
        )
    if tensor.layout in COMPRESSED_BY_ROW:
        compressed, plain = tensor.crow_indices(), tensor.col_indices()
    else:
        compressed, plain = tensor.ccol_indices(), tensor.row_indices()
    parts = (host_view(part) for part in (compressed, plain, tensor.values()))
    return torch.sparse_compressed_tensor(*parts, tensor.shape, layout=tensor.layout, check_invariants=False)


def takes_apart(func: Any) -> bool:
    """Whether the operator looks at a sparse tensor, or makes one of its parts, without looking at values."""
    name = func._schema.name.split("::")[1]
    if name == "_coalesced_" or "sparse_coo_tensor" in name or "_tensor_unsafe" in name or name.startswith("sparse_co"):
        return not name.startswith("_validate")
    returns = func._schema.returns
    is_view = any(value.alias_info is not None and not value.alias_info.is_write for value in returns)
    return is_view or not any("Tensor" in str(value.type) for value in returns)


def makes_sparse(func: Any) -> bool:
    """Whether the operator makes a sparse tensor of a dense one, as large as values say."""
    return func._schema.name.startswith(("aten::_to_sparse", "aten::to_sparse"))
