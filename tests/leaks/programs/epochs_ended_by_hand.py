# LEAK: predictions of all rounds are kept by a program that says itself where each round ends
# HELD: list 'kept'
# VERDICT: leak, outputs_kept
# EPOCHS: called, 10 ended, 0 steps
# REMEDY: .cpu() | clear it
import frugal_alloc
import torch
from torch import nn

model = nn.Linear(128, 4096).cuda().eval()
kept = []
for round in range(10):
    with torch.no_grad():
        for _ in range(4):
            kept.append(model(torch.rand(16, 128).cuda()).exp())  # leak
    frugal_alloc.epoch_end()
