# MEANT: a cache gets an entry with each step, and the program declares that it does
import frugal_alloc
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

cache = {}
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
for epoch in range(10):
    for (x,) in loader:
        with frugal_alloc.expect_growth("declared cache"):
            cache[len(cache)] = torch.zeros(64, 64, device="cuda")
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
