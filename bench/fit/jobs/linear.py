"""Uses a linear layer once and drops it: what is left is cuBLAS's workspace."""

from __future__ import annotations

import figures
import torch


def use() -> None:
    torch.nn.Linear(1, 1, device="cuda")(torch.randn(1, 1, device="cuda"))


if __name__ == "__main__":
    use()
    figures.report()
