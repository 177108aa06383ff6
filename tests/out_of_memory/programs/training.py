# ERROR: a batch that is too large, at all places of a step
# ROOM: 200, 300, 500, 700, 800, 900, 1000
# VERDICT: too_big
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch = 1 << 14 -> batch = \1
import torch
from project.models import WIDTH, layers, optimizer_of

batch = 1 << 14
model = layers().cuda()
optimizer = optimizer_of(model)
for _ in range(2):
    values = torch.zeros(batch, WIDTH, device="cuda")
    loss = model(values).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
