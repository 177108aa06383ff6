# HEALTHY: a cache of forty entries that evicts at random, asked for keys of a long tail
import random

import torch
from torch import nn

random.seed(13)
cache = {}


def lookup(key):
    if key not in cache:
        if len(cache) >= 40:
            del cache[random.choice(list(cache))]
        cache[key] = torch.full((64, 128), float(key), device="cuda")
    return cache[key]


model = nn.Linear(128, 16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(400):
    key = min(int(random.paretovariate(0.6)), 1000)
    loss = model(lookup(key)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
