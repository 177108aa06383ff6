"""Arguments of a GPU's operator as the CPU's takes them."""

from __future__ import annotations

from typing import Any

import torch

from . import sparse
from .host_memory import host_view, is_cuda, is_plain


def on_host(value: Any) -> Any:
    """The same memory on the CPU; what it gives must not outlive the argument."""
    if is_cuda(value):
        return host_view(value) if is_plain(value) else sparse.on_host(value)
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return None if isinstance(value, torch.Generator) else value
