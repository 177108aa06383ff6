""" "CUDA error: unspecified launch failure" after some epochs.

A layer of the program's own remembers the attention of every batch, with its graph, so memory fills over the
epochs. What fails in the end is an extension that asks the driver for a workspace of its own, and says nothing of
memory. People are told to add `zero_grad()`; that it is missing changes what is learnt, and not the memory.

    frugal-alloc simulate --memory 768MiB --values cpu -- python examples/stories/launch_failure.py [--healed]
"""

from __future__ import annotations

import ctypes

import frugal_alloc
import story
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH = 64
EPOCHS, STEPS = 30, 2


class Attention(nn.Module):
    """Attention over a sequence that remembers its weights for a plot."""

    def __init__(self, remember: bool) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.remember = remember
        self.seen: list[torch.Tensor] = []

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.query(values) @ self.key(values).transpose(1, 2), dim=-1)
        if self.remember:
            self.seen.append(weights)
        return values + weights @ values


class Workspace:
    """An extension that takes its memory from the driver, as many do, and reports any failure as one of its kernel."""

    def __init__(self) -> None:
        self._runtime = ctypes.CDLL("libcudart.so.13")

    def use(self, size: int) -> None:
        address = ctypes.c_void_p()
        if self._runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(size)) != 0:
            self._runtime.cudaGetLastError()
            raise RuntimeError("CUDA error: unspecified launch failure (roi_kernel.cu:112)")
        self._runtime.cudaFree(address)


def train(healed: bool) -> None:
    model = nn.ModuleList(Attention(remember=not healed) for _ in range(2)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    workspace = Workspace()
    for _ in range(EPOCHS):
        for _ in range(STEPS):
            values = torch.randn(16, 192, WIDTH, device="cuda")
            for layer in model:
                values = checkpoint(layer, values, use_reentrant=False) if healed else layer(values)
            workspace.use(24 << 20)
            values.square().mean().backward()
            optimizer.step()
            if healed:
                optimizer.zero_grad()
        frugal_alloc.epoch_end()


if __name__ == "__main__":
    story.tell(train)
