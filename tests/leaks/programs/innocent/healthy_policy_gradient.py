# HEALTHY: episodes of different lengths, whose log probabilities end with their update
import random

import torch
from torch import nn

random.seed(4)
policy = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 4)).cuda()
optimizer = torch.optim.Adam(policy.parameters())
returns = []
for episode in range(30):
    log_probs, rewards = [], []
    for step in range(random.randint(3, 12)):
        logits = policy(torch.rand(16, 512, device="cuda"))
        log_probs.append(logits.log_softmax(dim=-1)[:, 0])
        rewards.append(1.0)
    loss = -torch.stack(log_probs).mean() * sum(rewards)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    returns.append(sum(rewards))
