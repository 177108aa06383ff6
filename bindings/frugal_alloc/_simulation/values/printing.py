"""Printing a tensor, which computes with all modes off, does so on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .graphs import wrap
from .host_memory import host_view, is_cuda, is_plain


def _print(wrapped: Callable, tensor: torch.Tensor, indent: int) -> str:
    return wrapped(host_view(tensor.detach()) if is_cuda(tensor) and is_plain(tensor) else tensor, indent)


def start() -> None:
    wrap(torch._tensor_str, "_tensor_str", _print)
