# HEALTHY: each tree knows its root by a weak reference, and goes with the step
# LIKE: reference_cycle
import weakref

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tree:
    def __init__(self, values):
        self.values = values
        self.root = weakref.ref(self)


model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
for epoch in range(10):
    for (x,) in loader:
        Tree(torch.ones(1 << 20, device="cuda"))
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
