"""Story b: "CUDA out of memory" in an old paper's code.

A generative model as research code was written: the data set is moved to the GPU whole, and once more for each batch;
the samples of each step are kept, with the graph that made them; evaluation records gradients. The line that fails is
not the line at fault.

    frugal-alloc simulate --memory 768MiB --values cpu -- python tests/stories/research.py [--healed]
"""

from __future__ import annotations

import argparse

import frugal_alloc
import torch
from torch import nn

SIDE = 16
STEPS = 4


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(32, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, SIDE * SIDE)
        )

    def forward(self, noise: torch.Tensor) -> torch.Tensor:
        return self.layers(noise)


class History:
    """What the paper's figures are drawn from."""

    def __init__(self) -> None:
        self.samples: list[torch.Tensor] = []
        self.losses: list[torch.Tensor | float] = []


def train_sick(generator: nn.Module, critic: nn.Module, images: torch.Tensor, epochs: int) -> None:
    history = History()
    images = images.cuda()
    optimizer = torch.optim.Adam(generator.parameters())
    for _ in range(epochs):
        for step in range(STEPS):
            batch = images[step * 256 : (step + 1) * 256].clone().cuda()
            fake = generator(torch.randn(256, 32).cuda())
            loss = (critic(fake) - critic(batch)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.samples.append(generator(torch.randn(512, 32).cuda()))
            history.losses.append(loss)
        frugal_alloc.epoch_end()


def train_healed(generator: nn.Module, critic: nn.Module, images: torch.Tensor, epochs: int) -> None:
    history = History()
    optimizer = torch.optim.Adam(generator.parameters())
    for _ in range(epochs):
        for step in range(STEPS):
            batch = images[step * 256 : (step + 1) * 256].cuda()
            fake = generator(torch.randn(256, 32).cuda())
            loss = (critic(fake) - critic(batch)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                history.samples.append(generator(torch.randn(512, 32).cuda()).cpu())
            history.losses.append(loss.item())
        frugal_alloc.epoch_end()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--healed", action="store_true")
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    torch.manual_seed(0)
    frugal_alloc.enable()
    generator = Generator().cuda()
    critic = nn.Sequential(nn.Linear(SIDE * SIDE, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    images = torch.rand(1024, SIDE * SIDE)
    (train_healed if options.healed else train_sick)(generator, critic, images, options.epochs)
    print(f"peak: {torch.cuda.max_memory_allocated() / (1 << 20):.0f} MiB")


if __name__ == "__main__":
    main()
