# HEALTHY: a workspace that is replaced by a larger one whenever a batch needs more, up to the longest
# LIKE: growing_tensor
import random

import torch
from torch import nn


class Workspace:
    def __init__(self):
        self.buffer = torch.empty(0, device="cuda")

    def get(self, rows, columns):
        if self.buffer.numel() < rows * columns:
            self.buffer = torch.empty(rows * columns, device="cuda")
        return self.buffer[: rows * columns].view(rows, columns)


random.seed(23)
workspace = Workspace()
model = nn.Linear(256, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(240):
    x = workspace.get(random.randint(10, 400), 256).normal_()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
