# ERROR: a batch that is too large after steps with a smaller one, which tell what the largest is
# ROOM: 150, 220
# FIRST: a batch of (\d+) fits(?!, and maybe a larger one)
# FITS-AFTER: batch = 64 -> batch = \1
# FAILS-AFTER: batch = 64 -> batch = \1 + -(-\1 // 9)
import torch
from project.models import train
from torch import nn

batch = 64
blocks = [(nn.Conv2d(3 if i == 0 else 16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for i in range(6)]
model = nn.Sequential(*(layer for block in blocks for layer in block))
train(model, torch.zeros(1, 3, 64, 64), (4, 4, batch))
