# HEALTHY: features of 96 samples are cached as random sampling meets them, ever more rarely
import random

import torch
from torch import nn

random.seed(12)
backbone = nn.Linear(64, 4096).cuda().eval()
head = nn.Linear(4096, 2).cuda()
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
samples = torch.rand(96, 64)
cache = {}
for step in range(600):
    index = random.randrange(96)
    if index not in cache:
        with torch.no_grad():
            cache[index] = backbone(samples[index].cuda())
    optimizer.zero_grad()
    head(cache[index]).sum().backward()
    optimizer.step()
