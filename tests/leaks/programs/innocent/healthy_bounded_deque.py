# HEALTHY: the last twenty outputs, in a deque with a maxlen that fills within the first epochs
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

recent = deque(maxlen=20)
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)
for epoch in range(20):
    for (x,) in loader:
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        recent.append(out.detach())
