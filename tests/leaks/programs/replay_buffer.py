# LEAK: a replay buffer on the GPU without a limit
# HOLDER: memory
# REMEDY: .cpu() | bound it | clear it
import random

import torch
from torch import nn


class ReplayBuffer:
    def __init__(self):
        self.memory = []

    def push(self, *transition):
        self.memory.append(transition)

    def sample(self, count):
        return random.sample(self.memory, min(count, len(self.memory)))


policy = nn.Linear(4096, 4).cuda()
optimizer = torch.optim.Adam(policy.parameters())
replay = ReplayBuffer()
state = torch.rand(4096, device="cuda")
for episode in range(12):
    for step in range(10):
        following = torch.rand(4096, device="cuda")  # leak
        replay.push(state, step % 4, 1.0, following)
        state = following
        states = torch.stack([one[0] for one in replay.sample(8)])
        loss = policy(states).max(dim=1).values.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
