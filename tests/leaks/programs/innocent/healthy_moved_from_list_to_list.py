# HEALTHY: samples wait on the GPU in one list and are moved, normalised, to another as they are used
import torch
from torch import nn

waiting = [torch.rand(64, 128, device="cuda") for _ in range(120)]
used = []
model = nn.Linear(128, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while waiting:
    sample = waiting.pop()
    sample = (sample - sample.mean()) / 0.3
    loss = model(sample).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    used.append(sample)
