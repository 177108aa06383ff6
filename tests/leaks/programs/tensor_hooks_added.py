# LEAK: each step registers another hook on a parameter, whose closure keeps the batch
# HELD: backward hooks of Parameter 'weight'
# THROUGH: tensor 'large' in the closure of <lambda>()
# VERDICT: leak, hooks_added
# REMEDY: remove
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def scale_by(batch):
    large = batch.repeat(16, 1)  # leak
    weight.register_hook(lambda gradient: gradient + 0 * large.sum())


weight = nn.Parameter(torch.ones(64, 64, device="cuda"))
optimizer = torch.optim.SGD([weight], lr=0.01)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(32, 64)), batch_size=8):
        batch = x.cuda()
        optimizer.zero_grad()
        (batch @ weight).square().mean().backward()
        optimizer.step()
        scale_by(batch)
