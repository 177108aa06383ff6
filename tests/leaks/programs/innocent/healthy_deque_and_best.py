# HEALTHY: the latest twelve outputs are kept in a deque, and the four with the lowest loss besides
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

latest, best = deque(maxlen=12), []
model = nn.Linear(128, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=32)
for epoch in range(14):
    for index, (x,) in enumerate(loader):
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        latest.append(out.detach())
        if index == epoch % 8:
            best = [*best[-3:], out.detach()]
