# HEALTHY: coordinate grids are cached by resolution, and there are eight resolutions
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

random.seed(1)
grids = {}


def grid(size):
    if size not in grids:
        line = torch.linspace(-1, 1, size, device="cuda")
        grids[size] = torch.stack(torch.meshgrid(line, line, indexing="ij"))
    return grids[size]


model = nn.Conv2d(2, 4, 1).cuda()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(16):
    for (scale,) in DataLoader(TensorDataset(torch.rand(6)), batch_size=1):
        size = 32 * random.randint(1, 8)
        loss = model(grid(size)[None]).mean() * float(scale)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
