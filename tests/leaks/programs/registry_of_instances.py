# LEAK: a class keeps all its instances in a dictionary of its own
# HELD: dict 'instances' of class Grid
# THROUGH: tensor 'points' of Grid
# REMEDY: bound it | clear it | let it go
import torch
from torch import nn


class Grid:
    instances = {}

    def __init__(self, step):
        self.points = torch.rand(256, 64, device="cuda")  # leak
        Grid.instances[step] = self

    def __len__(self):
        return self.points.shape[0]


model = nn.Linear(64, 1).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(120):
    grid = Grid(step)
    loss = model(grid.points).square().sum() / len(grid)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
