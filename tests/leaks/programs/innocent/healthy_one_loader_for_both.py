# HEALTHY: one loader for training and for the training score, whose outputs are of one epoch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        scores = [model(x.cuda()) for (x,) in loader]
    print(epoch, torch.cat(scores).mean().item())
