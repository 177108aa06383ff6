# HEALTHY: a replay memory of bounded size whose least useful entry makes way
import heapq
import itertools
import random

import torch
from torch import nn

random.seed(6)
memory = []
tie = itertools.count()
policy = nn.Linear(8192, 4).cuda()
optimizer = torch.optim.Adam(policy.parameters())
for episode in range(30):
    for step in range(8):
        observation = torch.rand(8192, device="cuda")
        entry = (random.random(), next(tie), observation)
        if len(memory) < 40:
            heapq.heappush(memory, entry)
        else:
            heapq.heapreplace(memory, entry)
        batch = torch.stack([one[2] for one in random.sample(memory, min(4, len(memory)))])
        optimizer.zero_grad()
        policy(batch).mean().backward()
        optimizer.step()
