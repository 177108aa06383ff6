# ERROR: a batch too large for a network whose first layers take most
# ROOM: 100, 150, 200
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch = 128 -> batch = \1
import itertools

import torch
from project.models import train
from torch import nn

batch = 128
blocks = [
    (nn.Conv2d(made, wide, 3, 2, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(), nn.Conv2d(wide, wide, 3, 1, 1))
    for made, wide in itertools.pairwise((3, 16, 32, 64, 128))
]
model = nn.Sequential(*(layer for block in blocks for layer in block), nn.AdaptiveAvgPool2d(1), nn.Flatten())
train(model, torch.zeros(1, 3, 128, 128), (batch,), "SGD")
