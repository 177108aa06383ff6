"""ConvNeXt-T in bfloat16, fed by a second stream: the next batch is copied and made ready while this one trains."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
import torchvision

from ..training.workloads import Step

STEPS = 40


class _Batches:
    """Images as bytes in pinned memory, on their way to the GPU one batch ahead."""

    def __init__(self, shapes: random.Random) -> None:
        self._shapes = shapes
        self._stream = torch.cuda.Stream()
        self._next = self._load()

    def take(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch that is ready; the one after it sets out."""
        current = torch.cuda.current_stream()
        current.wait_stream(self._stream)
        taken = self._next
        for tensor in taken:
            tensor.record_stream(current)
        self._next = self._load()
        return taken

    def _load(self) -> tuple[torch.Tensor, torch.Tensor]:
        batch, side = self._shapes.randint(16, 64), 32 * self._shapes.randint(5, 9)
        images = torch.empty(batch, 3, side, side, dtype=torch.uint8, device="cpu", pin_memory=True)
        labels = torch.zeros(batch, dtype=torch.long, device="cpu", pin_memory=True)
        with torch.cuda.stream(self._stream):
            floats = images.cuda(non_blocking=True).float().div_(255)
            return (floats - 0.45) / 0.225, labels.cuda(non_blocking=True)


def build(shapes: random.Random) -> Step:
    model = torchvision.models.convnext_tiny(weights=None).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batches = _Batches(shapes)

    def step() -> None:
        images, labels = batches.take()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
