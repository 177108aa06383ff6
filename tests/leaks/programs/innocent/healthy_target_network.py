# HEALTHY: deep Q-learning whose target network is replaced by a copy every twenty steps
import copy
from collections import deque

import torch
from torch import nn

network = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 4)).cuda()
target = copy.deepcopy(network)
optimizer = torch.optim.Adam(network.parameters())
memory = deque(maxlen=64)
for step in range(200):
    memory.append((torch.rand(512, device="cuda"), torch.rand(512, device="cuda")))
    states = torch.stack([state for state, _ in list(memory)[-16:]])
    following = torch.stack([state for _, state in list(memory)[-16:]])
    with torch.no_grad():
        wanted = target(following).max(dim=1).values
    loss = (network(states)[:, 0] - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        target = copy.deepcopy(network)
