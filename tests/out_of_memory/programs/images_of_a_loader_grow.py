# ERROR: the same where a loader has the batches
# ROOM: 150, 200
# FIRST: a batch of (\d+) fits(?!, and maybe a larger one)
# FITS-AFTER: batch = 96 -> batch = \1
# FAILS-AFTER: batch = 96 -> batch = \1 + -(-\1 // 9)
import torch
from project.models import convolutions, optimizer_of

batch = 96
model = convolutions().cuda()
optimizer = optimizer_of(model, "SGD", momentum=True)
batches = [[0] * size for size in (8, 8, batch)]
for values in torch.utils.data.DataLoader(torch.zeros(1, 3, 64, 64), batch_sampler=batches):
    loss = model(values.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
