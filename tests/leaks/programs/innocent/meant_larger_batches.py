# MEANT: the batch size doubles every other epoch instead of a smaller learning rate
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.rand(256, 128))
model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch_size = 4
for epoch in range(12):
    if epoch and epoch % 2 == 0:
        batch_size *= 2
    for (x,) in DataLoader(data, batch_size=batch_size, shuffle=True):
        x = x.cuda()
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
