# HEALTHY: a ring buffer of transitions that is full after five episodes
import torch
from torch import nn


class Ring:
    def __init__(self, capacity):
        self.slots = [None] * capacity
        self.position = 0

    def push(self, item):
        self.slots[self.position % len(self.slots)] = item
        self.position += 1


ring = Ring(50)
policy = nn.Linear(4096, 8).cuda()
optimizer = torch.optim.Adam(policy.parameters())
for episode in range(24):
    for step in range(10):
        observation = torch.rand(4096, device="cuda")
        ring.push(observation)
        loss = policy(observation).logsumexp(dim=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
