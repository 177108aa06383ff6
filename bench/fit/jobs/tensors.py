"""Jobs of a few tensors."""

from __future__ import annotations

import torch


def grow() -> None:
    """Makes ten tensors, each larger than the last, and lets go of each when the next is there."""
    for number in range(10):
        tensor = torch.rand(1000, 1000, number + 1, device="cuda:0")
    del tensor


def use_linear() -> None:
    """Uses a linear layer once and drops it: what is left is cuBLAS's workspace."""
    torch.nn.Linear(1, 1, device="cuda")(torch.randn(1, 1, device="cuda"))
