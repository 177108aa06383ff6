"""What a job of this folder prints when it is done: what PyTorch and the driver say of its memory."""

from __future__ import annotations

import json

import torch


def report() -> None:
    """Prints one line of JSON: the peak of tensors, the peak of what PyTorch reserved, and the GPU's memory in use."""
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    figures = {
        "allocated": torch.cuda.memory_allocated(),
        "max_allocated": torch.cuda.max_memory_allocated(),
        "max_reserved": torch.cuda.max_memory_reserved(),
        "in_use": total - free,
    }
    print(json.dumps(figures))
