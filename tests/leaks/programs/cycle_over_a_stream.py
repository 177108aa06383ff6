# LEAK: itertools.cycle remembers all batches of a stream that has no end
# HELD: list in cycle 'batches'
# REMEDY: .cpu() | let it go
import itertools

import torch
from torch import nn


def stream():
    while True:
        yield torch.rand(32, 512, device="cuda")  # leak


batches = itertools.cycle(stream())
model = nn.Linear(512, 16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, batch in enumerate(batches):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 120:
        break
