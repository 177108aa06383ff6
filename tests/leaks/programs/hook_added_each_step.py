# LEAK: each step registers another hook on a module, whose closure keeps the batch
# HELD: forward hooks of Linear 'model'
# THROUGH: tensor 'batch' in the closure of remember()
# VERDICT: leak, hooks_added
# REMEDY: remove
import torch
from torch import nn


def make_hook(batch):
    def remember(module, args, output):
        shapes.add(tuple(batch.shape))

    return remember


shapes = set()
model = nn.Linear(256, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(64):
    inputs = torch.rand(64, 256, device="cuda")  # leak
    model.register_forward_hook(make_hook(inputs))
    loss = model(inputs).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
