# ERROR: the batch of a loader is too large
# ROOM: 200, 300, 400, 500, 600, 700, 750
# FIRST: a batch of (\d+) (?:fits|would have fit)
# FITS-AFTER: batch = 256 -> batch = \1
import torch
from project.models import convolutions, optimizer_of

batch = 256
model = convolutions().cuda()
optimizer = optimizer_of(model, "SGD", momentum=True)
for values in torch.utils.data.DataLoader(torch.zeros(1024, 3, 64, 64), batch):
    loss = model(values.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
