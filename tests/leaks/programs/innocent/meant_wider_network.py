# MEANT: the hidden layer is made wider every other epoch, and the optimizer anew
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build(width):
    return nn.Sequential(nn.Linear(128, width), nn.ReLU(), nn.Linear(width, 128)).cuda()


width = 128
model = build(width)
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
for epoch in range(16):
    if epoch and epoch % 2 == 0:
        width += 128
        model = build(width)
        optimizer = torch.optim.Adam(model.parameters())
    for (x,) in loader:
        x = x.cuda()
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
