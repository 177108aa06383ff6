# ERROR: a sample that cannot be divided, of which the layers keep much for backward
# ROOM: 400
# VERDICT: too_big
# FIRST: checkpoint the layers \(torch\.utils\.checkpoint\.checkpoint, use_reentrant=False\): \d+\.\d\d MiB are kept
# FITS-AFTER: segments = 0 -> segments = 8
import torch
from project.models import WIDTH, layers, optimizer_of
from torch.utils.checkpoint import checkpoint_sequential

segments = 0
model = layers(8).cuda()
optimizer = optimizer_of(model)
for _ in range(2):
    values = torch.zeros(1, 6000, WIDTH, device="cuda", requires_grad=True)
    made = checkpoint_sequential(model, segments, values, use_reentrant=False) if segments else model(values)
    loss = made.mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
