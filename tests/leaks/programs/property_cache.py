# LEAK: objects with a cached_property are kept for their numbers, and keep their tables
# HOLDER: scenes
# REMEDY: .cpu() | clear it | let it go
import functools

import torch
from torch import nn


class Scene:
    def __init__(self, number):
        self.number = number

    @functools.cached_property
    def rays(self):
        return torch.rand(256, 64, device="cuda")  # leak


def main():
    field = nn.Linear(64, 4).cuda()
    optimizer = torch.optim.Adam(field.parameters())
    scenes = []
    for number in range(120):
        scene = Scene(number)
        loss = field(scene.rays).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scenes.append(scene)


main()
