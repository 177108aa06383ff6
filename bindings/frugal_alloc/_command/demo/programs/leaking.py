"""A training that keeps the loss of each step, and with it what the loss was made of."""

import frugal_alloc
import torch
from torch import nn

frugal_alloc.enable()
model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(512, 1024), batch_size=128)
losses = []

for _ in range(8):
    for pictures in loader:
        loss = model(pictures.cuda()).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss + 0.5 * model(pictures.cuda()).abs().mean())
print(frugal_alloc.report())
