"""Makes ten tensors, each larger than the last, and lets go of each when the next is there."""

from __future__ import annotations

import figures
import torch

if __name__ == "__main__":
    for number in range(10):
        tensor = torch.rand(1000, 1000, number + 1, device="cuda:0")
    figures.report()
