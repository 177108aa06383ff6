"""A diffusion model: a U-Net trained on images of several formats, whose averaged weights draw samples in between."""

from __future__ import annotations

import copy
import random

import torch
import torch.nn.functional as F
from torch import nn

from ..training.workloads import Step

STEPS = 40

_CHANNELS = (192, 384, 768)
_TIME = 768
# Of the latent images, height and width: one number of pixels in several formats, as when trained by aspect ratio.
_FORMATS = ((64, 64), (56, 72), (72, 56), (48, 80), (80, 48), (40, 96), (96, 40))
_LATENTS, _TIMES = 4, 1000
_SAMPLE_EVERY, _SAMPLE_STEPS = 10, 8


class _Block(nn.Module):
    """Two convolutions around a shortcut, told the time; attention where the images are small."""

    def __init__(self, before: int, after: int, attends: bool) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1))
        self.time = nn.Linear(_TIME, after)
        self.second = nn.Sequential(nn.GroupNorm(32, after), nn.SiLU(), nn.Conv2d(after, after, 3, padding=1))
        self.shortcut = nn.Conv2d(before, after, 1) if before != after else nn.Identity()
        self.attends = nn.MultiheadAttention(after, after // 64, batch_first=True) if attends else None

    def forward(self, images: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = self.second(self.first(images) + self.time(F.silu(time))[:, :, None, None])
        hidden = hidden + self.shortcut(images)
        if self.attends is None:
            return hidden
        places = hidden.flatten(2).transpose(1, 2)
        mixed, _ = self.attends(places, places, places, need_weights=False)
        return hidden + mixed.transpose(1, 2).unflatten(2, hidden.shape[2:])


class _Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Embedding(_TIMES, _TIME), nn.Linear(_TIME, _TIME), nn.SiLU())
        self.begin = nn.Conv2d(_LATENTS, _CHANNELS[0], 3, padding=1)
        pairs = list(zip((_CHANNELS[0], *_CHANNELS), _CHANNELS, strict=False))
        self.down = nn.ModuleList(_Block(before, after, after >= 384) for before, after in pairs)
        self.middle = _Block(_CHANNELS[-1], _CHANNELS[-1], True)
        self.up = nn.ModuleList(_Block(2 * after, before, after >= 384) for before, after in reversed(pairs))
        self.end = nn.Sequential(
            nn.GroupNorm(32, _CHANNELS[0]), nn.SiLU(), nn.Conv2d(_CHANNELS[0], _LATENTS, 3, padding=1)
        )

    def forward(self, images: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        time, hidden, passed = self.time(times), self.begin(images), []
        for block in self.down:
            passed.append(block(hidden, time))
            hidden = F.avg_pool2d(passed[-1], 2)
        hidden = self.middle(hidden, time)
        for block in self.up:
            hidden = torch.cat([F.interpolate(hidden, scale_factor=2), passed.pop()], dim=1)
            hidden = block(hidden, time)
        return self.end(hidden)


def build(shapes: random.Random) -> Step:
    model = _Unet().cuda()
    averaged = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    done = 0

    def step() -> None:
        nonlocal done
        images = torch.randn(shapes.randint(8, 24), _LATENTS, *shapes.choice(_FORMATS), device="cuda")
        times, noise = torch.randint(_TIMES, (len(images),), device="cuda"), torch.randn_like(images)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = model(images + noise * times[:, None, None, None] / _TIMES, times)
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(found.float(), noise).backward()
        optimizer.step()
        for kept, weight in zip(averaged.parameters(), model.parameters(), strict=True):
            kept.lerp_(weight.detach(), 0.001)
        done += 1
        if done % _SAMPLE_EVERY == 0:
            _sample(averaged, shapes.randint(1, 8), shapes.choice(_FORMATS))

    return step


@torch.no_grad()
def _sample(model: _Unet, count: int, form: tuple[int, int]) -> None:
    """Each with guidance and without, in one batch."""
    images = torch.randn(count, _LATENTS, *form, device="cuda")
    for number in reversed(range(_SAMPLE_STEPS)):
        times = torch.full((2 * count,), number * _TIMES // _SAMPLE_STEPS, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guided, free = model(torch.cat([images, images]), times).chunk(2)
        images = images - (free + 7.5 * (guided - free)).float() / _SAMPLE_STEPS
    images.cpu()
