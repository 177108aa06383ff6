"""What tests on the GPU leave behind: it is made at a line of this file."""

from __future__ import annotations

import torch

MIB = 1 << 20


def tensor(size: int = MIB) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")
