# HEALTHY: each request has a key-value cache of its own, and requests are of different lengths
import random

import torch
from textgen import DynamicCache
from torch import nn

random.seed(14)
projection = nn.Linear(256, 512).cuda().eval()
active = {}


@torch.inference_mode()
def step(request):
    cache = active[request]
    keys, values = projection(torch.rand(8, 256, device="cuda")).chunk(2, dim=-1)
    cache.update(keys, values, 0)


for number in range(80):
    active[number] = DynamicCache()
    for _ in range(4):
        for request in active:
            step(request)
    while len(active) > 4:
        del active[random.choice(list(active))]
