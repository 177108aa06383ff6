# HEALTHY: an LRU cache of 16 encodings, which fills and is full
# LIKE: unbounded_cache
import functools
import random

import torch
from torch import nn

random.seed(5)


@functools.lru_cache(maxsize=16)
def encoding(length):
    return torch.arange(length, device="cuda").float()[:, None].expand(length, 64).contiguous()


model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(160):
    length = random.randrange(100, 200)
    x = torch.rand(length, 64, device="cuda")
    loss = model(x + encoding(length)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
