# ERROR: a batch that fits now is no promise where what is made of it is kept
# ROOM: 120
# FIRST: fewer at a time: .* at most \d+, as `found` is to keep what is made of them
import torch
from project.models import WIDTH, layers

batch = 1 << 14
model, found = layers().cuda(), {"features": []}
with torch.no_grad():
    for _ in range(8):
        values = torch.zeros(batch, WIDTH, device="cuda")
        made = model(values)
        found["features"].append(made)
