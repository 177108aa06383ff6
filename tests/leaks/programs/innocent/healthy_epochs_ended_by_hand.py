# HEALTHY: predictions of one round are kept by a program that says itself where each round ends
# EPOCHS: called, 10 ended, 0 steps
import frugal_alloc
import torch
from torch import nn

model = nn.Linear(128, 4096).cuda().eval()
kept = []
for round in range(10):
    kept.clear()
    with torch.no_grad():
        for _ in range(4):
            kept.append(model(torch.rand(16, 128).cuda()).exp())
    frugal_alloc.epoch_end()
