# ERROR: a batch too large beside weights whose gradients come as the activations go
# ROOM: 700
# VERDICT: too_big
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch = 5000 -> batch = \1
# FAILS-AFTER: batch = 5000 -> batch = \1 * 5 // 4
import torch
from project.models import layers, optimizer_of

batch = 5000
model = layers(4, 1024).cuda()
optimizer = optimizer_of(model, "SGD")
for _ in range(3):
    loss = model(torch.zeros(batch, 1024, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
