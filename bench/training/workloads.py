"""The trainings that are measured: models with random weights, fed with random data in seeded, variable shapes.

Data comes about on the GPU, so that neither a disk nor the bus is measured; a step takes from the allocator what it
would take with real data of these shapes.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

Step = Callable[[], None]

# Image sizes that are common in COCO, height and width.
_IMAGE_SIZES = ((480, 640), (427, 640), (640, 480), (640, 426), (375, 500), (500, 333), (612, 612), (768, 1024))
_DETECTOR_SIDES = (480, 512, 544, 576, 608, 640, 672, 704, 736, 768, 800)


def build(name: str, shapes: random.Random, quick: bool) -> Step:
    """The function that carries out one training step of a workload. `shapes` decides over what each step is fed with.

    Args:
        quick: a small model and small shapes, to see that all works.
    """
    return _BUILDERS[name](shapes, quick)


class _Layer(nn.Module):
    """One layer of GPT-2: attention and a perceptron, each behind a norm and around a shortcut."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, length, width = hidden.shape
        parts = self.attend(self.norms[0](hidden)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return hidden + self.perceptron(self.norms[1](hidden))


class Gpt2(nn.Module):
    """GPT-2 with tied embeddings; the sizes given by default are those of the small one (124 million weights)."""

    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 50257) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(1024, width)
        self.layers = nn.Sequential(*(_Layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.norm(self.layers(self.words(tokens) + self.places(places)))
        return F.linear(hidden, self.words.weight)


def _gpt2(shapes: random.Random, quick: bool) -> Step:
    model = (Gpt2(layers=2, width=128, heads=2, words=1000) if quick else Gpt2()).cuda()
    return train_gpt2(model, 2 if quick else 8, lengths(shapes, quick))


def lengths(shapes: random.Random, quick: bool) -> Callable[[], int]:
    """Batches are as long as their longest text, a multiple of 8."""
    return lambda: 8 * (shapes.randint(4, 16) if quick else shapes.randint(16, 128))


def train_gpt2(model: nn.Module, batch: int, length: Callable[[], int]) -> Step:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    words = model.words.num_embeddings

    def step() -> None:
        tokens = torch.randint(words, (batch, length()), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        descend(optimizer, loss)

    return step


def _resnet50(shapes: random.Random, quick: bool) -> Step:
    """Batches of variable size, of images whose side changes from one to the next."""
    import torchvision

    create = torchvision.models.resnet18 if quick else torchvision.models.resnet50
    model = create(weights=None).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        side = 32 * shapes.randint(2, 4) if quick else 32 * shapes.randint(5, 9)
        batch = shapes.randint(2, 4) if quick else shapes.randint(32, 96)
        images = torch.rand(batch, 3, side, side, device="cuda")
        labels = torch.randint(1000, (batch,), device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(images)
        descend(optimizer, F.cross_entropy(logits, labels))

    return step


def _fasterrcnn(shapes: random.Random, quick: bool, bf16: bool = False) -> Step:
    """Two to four images of common sizes, scaled to one of eleven, with one to twenty boxes each."""
    import torchvision

    detection = torchvision.models.detection
    create = detection.fasterrcnn_mobilenet_v3_large_320_fpn if quick else detection.fasterrcnn_resnet50_fpn
    sides = (160, 192, 224) if quick else _DETECTOR_SIDES
    model = create(weights=None, weights_backbone=None, min_size=sides).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        images, targets = [], []
        for _ in range(shapes.randint(2, 4)):
            height, width = shapes.choice(_IMAGE_SIZES)
            images.append(torch.rand(3, height, width, device="cuda"))
            boxes = torch.tensor([_box(shapes, height, width) for _ in range(shapes.randint(1, 20))])
            targets.append({"boxes": boxes.cuda(), "labels": torch.randint(1, 91, (len(boxes),), device="cuda")})
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bf16):
            loss = sum(model(images, targets).values())
        descend(optimizer, loss)

    return step


def _box(shapes: random.Random, height: int, width: int) -> tuple[float, float, float, float]:
    left, top = shapes.uniform(0, width - 20), shapes.uniform(0, height - 20)
    return left, top, shapes.uniform(left + 10, width), shapes.uniform(top + 10, height)


def descend(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


_BUILDERS = {
    "gpt2": _gpt2,
    "resnet50": _resnet50,
    "fasterrcnn": _fasterrcnn,
    "fasterrcnn_bf16": functools.partial(_fasterrcnn, bf16=True),
}
