"""Models of the programs beside it, and how they are trained."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH = 256
WORDS = 1 << 15


def layers(count: int = 6, width: int = WIDTH) -> nn.Sequential:
    blocks = [(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count)]
    return nn.Sequential(*(layer for block in blocks for layer in block))


def convolutions() -> nn.Sequential:
    return nn.Sequential(*(nn.Conv2d(3 if i == 0 else 16, 16, 3, padding=1) for i in range(8)))


def optimizer_of(model: nn.Module, optimizer: str = "AdamW", **options: bool) -> torch.optim.Optimizer:
    return getattr(torch.optim, optimizer)(model.parameters(), lr=1e-3, **options)


def train(model: nn.Module, values: torch.Tensor, batches: tuple[int, ...], optimizer: str = "AdamW") -> None:
    """With batches of one size after the other."""
    model.cuda()
    stepping = optimizer_of(model, optimizer)
    for batch in batches:
        inputs = values.expand(batch, *values.shape[1:]).cuda()
        loss = model(inputs).square().mean()
        stepping.zero_grad()
        loss.backward()
        stepping.step()


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = layers(2)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.words(words)))


def train_on_texts(batch: int, chunks: int) -> None:
    """Of 1,024 words each, with the loss of all of their logits at once or in chunks."""
    model = Language().cuda()
    words = torch.zeros(batch, 1024, dtype=torch.long, device="cuda")

    def part_of_loss(hidden: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model.head(hidden), right, reduction="sum")

    if chunks == 1:
        logits = model(words)
        loss = nn.functional.cross_entropy(logits.view(-1, WORDS), words.view(-1))
    else:
        hidden = model.layers(model.words(words)).view(-1, WIDTH)
        parts = zip(hidden.chunk(chunks), words.view(-1).chunk(chunks), strict=True)
        loss = sum(checkpoint(part_of_loss, *part, use_reentrant=False) for part in parts) / words.numel()
    loss.backward()
