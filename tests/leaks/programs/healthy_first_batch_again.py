# HEALTHY: an iterator is made for each step, so that all steps have the loader's first batch
# EPOCHS: steps, 20 ended, 40 steps
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    (x,) = next(iter(loader))
    optimizer.zero_grad()
    model(x.cuda()).square().mean().backward()
    optimizer.step()
