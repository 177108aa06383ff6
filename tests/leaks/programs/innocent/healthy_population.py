# HEALTHY: population-based training, where the worst are replaced by copies of the best
import copy
import random

import torch
from torch import nn

random.seed(10)
population = [nn.Linear(256, 256).cuda() for _ in range(6)]
for generation in range(20):
    scores = []
    for member in population:
        optimizer = torch.optim.SGD(member.parameters(), lr=random.choice([0.1, 0.01]))
        for _ in range(2):
            loss = member(torch.rand(32, 256, device="cuda")).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scores.append(random.random())
    order = sorted(range(6), key=lambda number: scores[number])
    for worst, best in zip(order[:2], order[-2:], strict=True):
        population[worst] = copy.deepcopy(population[best])
