# HEALTHY: a functools cache is cleared after each epoch
import functools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@functools.cache
def encoding(length, epoch):
    return torch.arange(length, device="cuda").float()[:, None].repeat(1, 64)


model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(16):
    for index, (x,) in enumerate(DataLoader(TensorDataset(torch.rand(96, 100, 64)), batch_size=16)):
        length = 50 + 10 * index
        loss = model(x.cuda()[:, :length] + encoding(length, epoch)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    encoding.cache_clear()
