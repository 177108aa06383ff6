# ERROR: a batch too large for blocks that widen and narrow again, of which the last makes no logits
# ROOM: 300, 400
# VERDICT: too_big
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch = 6000 -> batch = \1
# FAILS-AFTER: batch = 6000 -> batch = \1 * 4 // 3
import torch
from project.models import WIDTH, layers, optimizer_of

batch = 6000
model = layers(8).cuda()
optimizer = optimizer_of(model)
for _ in range(3):
    loss = model(torch.zeros(batch, WIDTH, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
