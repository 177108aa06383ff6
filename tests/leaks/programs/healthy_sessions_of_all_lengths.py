# HEALTHY: sessions whose lengths have a long tail: most end at once, and some go on for most of the run
import random

import torch
from torch import nn

random.seed(24)
sessions = {}
model = nn.Linear(256, 1024).cuda().eval()
for request in range(400):
    with torch.inference_mode():
        state = model(torch.rand(16, 256, device="cuda"))
    sessions[request] = state, request + min(60, int(random.paretovariate(0.8)))
    for number in [number for number, (_, end) in sessions.items() if end <= request]:
        del sessions[number]
