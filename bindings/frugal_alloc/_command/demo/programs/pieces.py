"""Trains on pictures of many sizes, and keeps features of some of them: pieces.py ours|pytorch."""

import random
import sys

import torch
from torch import nn

if sys.argv[1] == "ours":
    import frugal_alloc

    frugal_alloc.enable()

random.seed(0)
model = nn.ModuleList(nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()) for _ in range(12)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
features = []

try:
    for step in range(40):
        side = random.randrange(192, 448, 32)
        values = torch.randn(4, 32, side, side, device="cuda")
        for layer in model:
            values = layer(values)
            if step % 4 == 0:
                features.append(nn.functional.adaptive_avg_pool2d(values.detach(), 64))
        values.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    end = "trained"
except torch.cuda.OutOfMemoryError:
    end = f"out of memory in step {step}"
print(end, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
