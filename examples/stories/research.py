""" "CUDA out of memory" in an old paper's code.

A generative model as research code was written: the data set is moved to the GPU whole, and once more for each batch;
the samples of each step are kept, with the graph that made them; evaluation records gradients. The line that fails is
not the line at fault.

    frugal-alloc simulate --memory 768MiB --values cpu -- python examples/stories/research.py [--healed]
"""

from __future__ import annotations

import contextlib

import frugal_alloc
import story
import torch
from torch import nn

SIDE = 16
EPOCHS, STEPS = 10, 4


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


def train(healed: bool) -> None:
    generator = Generator().cuda()
    critic = nn.Sequential(nn.Linear(SIDE * SIDE, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    history, images = History(), torch.rand(1024, SIDE * SIDE)
    if not healed:
        images = images.cuda()
    optimizer = torch.optim.Adam(generator.parameters())
    for _ in range(EPOCHS):
        for step in range(STEPS):
            batch = images[step * 256 : (step + 1) * 256]
            batch = batch.cuda() if healed else batch.clone().cuda()
            fake = generator(torch.randn(256, 32).cuda())
            loss = (critic(fake) - critic(batch)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            noise = torch.randn(512, 32).cuda()
            with torch.no_grad() if healed else contextlib.nullcontext():
                history.samples.append(generator(noise).cpu() if healed else generator(noise))
            history.losses.append(loss.item() if healed else loss)
        frugal_alloc.epoch_end()


if __name__ == "__main__":
    story.tell(train)
