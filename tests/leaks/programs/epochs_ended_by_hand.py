# LEAK: predictions of all rounds are kept, beside those of one, by a program that says itself where each round ends
# HELD: list 'kept'
# VERDICT: leak, outputs_kept
# EPOCHS: called, 10 ended, 0 steps
# REMEDY: .cpu() | clear it
import frugal_alloc
import torch
from torch import nn

model = nn.Linear(128, 4096).cuda().eval()
kept, of_the_round = [], []
for round in range(10):
    of_the_round.clear()
    with torch.no_grad():
        for _ in range(4):
            kept.append(model(torch.rand(16, 128).cuda()).exp())  # leak
            of_the_round.append(kept[-1] + 1)
    frugal_alloc.epoch_end()
