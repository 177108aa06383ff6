# ERROR: weights, gradients and what the optimizer keeps are too much without any sample
# ROOM: 200, 250
# VERDICT: too_big
# FIRST: no batch fits: without any sample .* trained 80\.\d\d MiB, gradients 80\.\d\d MiB, AdamW 2\d\d\.
# FAILS-AFTER: batch = 4096 -> batch = 1
# UNSAID: a batch of
import torch
from project.models import layers, optimizer_of

batch = 4096
model = layers(40).cuda()
optimizer = optimizer_of(model)
for _ in range(2):
    loss = model(torch.zeros(batch, 256, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
