# HEALTHY: of all answers a function keeps the eight best in a heap
import heapq
import random

import torch
from torch import nn

random.seed(3)


@torch.no_grad()
def best_of(model, requests):
    best = []
    for number in range(requests):
        answer = model(torch.rand(16, 256).cuda())
        heapq.heappush(best, (random.random(), number, answer))
        if len(best) > 8:
            heapq.heappop(best)
    return [number for _, number, _ in best]


print(best_of(nn.Linear(256, 2048).cuda().eval(), 160))
