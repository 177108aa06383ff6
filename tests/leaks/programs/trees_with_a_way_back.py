# LEAK: each tree knows its root, so that it stays until the garbage collector runs by itself
# HOLDER: not known
# VERDICT: cycle, reference_cycle
# REMEDY: break the cycle | gc.collect()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tree:
    def __init__(self, values):
        self.values = values
        self.root = self


model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
for epoch in range(10):
    for (x,) in loader:
        Tree(torch.ones(1 << 20, device="cuda"))  # leak
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
