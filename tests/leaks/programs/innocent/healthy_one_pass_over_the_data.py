# HEALTHY: a training goes over its data once, with its three most recent outputs in a deque
# EPOCHS: steps, 16 ended, 64 steps
import collections

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

recent = collections.deque(maxlen=3)
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (x,) in DataLoader(TensorDataset(torch.rand(1024, 128)), batch_size=16):
    output = model(x.cuda())
    optimizer.zero_grad()
    output.square().mean().backward()
    optimizer.step()
    recent.append(output.detach() + 1)
