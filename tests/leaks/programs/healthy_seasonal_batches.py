# HEALTHY: batch sizes that rise and fall over eight epochs, with their outputs kept until the next epoch
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.rand(256, 128))
model = nn.Linear(128, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
outputs = []
for epoch in range(24):
    outputs.clear()
    batch_size = 16 + round(48 * (1 - math.cos(epoch * math.pi / 4)))
    for (x,) in DataLoader(data, batch_size=batch_size):
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        outputs.append(out.detach()[: batch_size // 2].clone())
