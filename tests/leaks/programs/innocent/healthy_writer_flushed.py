# HEALTHY: a library's writer keeps tensors until it is flushed, every second epoch
import torch
from tinyboard import Writer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

writer = Writer("runs")
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(16):
    for index, (x,) in enumerate(DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)):
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        writer.add_histogram("output", out.detach(), index)
    if epoch % 2:
        writer.flush()
