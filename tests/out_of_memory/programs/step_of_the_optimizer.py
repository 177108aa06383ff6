# ERROR: 192 MiB of parameters and few samples: there is no room for the optimizer's step
# ROOM: 500, 700, 900
# FIRST: AdamW keeps .* torch\.optim\.Adafactor keeps next to nothing
# FITS-AFTER: optimizer_of(model) -> optimizer_of(model, "Adafactor")
import torch
from project.models import layers, optimizer_of

model = layers(6, 1024).cuda()
optimizer = optimizer_of(model)
for _ in range(3):
    loss = model(torch.zeros(4, 1024, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
