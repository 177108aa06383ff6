# ERROR: a batch that is too large, with a penalty that is added to each step's own loss
# ROOM: 450
# VERDICT: too_big
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch = 6000 -> batch = \1
# UNSAID: holds the graphs
import torch
from project.models import WIDTH, layers, optimizer_of

batch = 6000
model = layers(8).cuda()
optimizer = optimizer_of(model)
for _ in range(2):
    made = model(torch.zeros(batch, WIDTH, device="cuda"))
    loss = made.square().mean()
    loss = loss + 0.1 * made.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
