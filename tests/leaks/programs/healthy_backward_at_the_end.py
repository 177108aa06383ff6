# HEALTHY: the losses of an epoch are added up and backpropagated at its end
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=16)
for epoch in range(14):
    total = 0.0
    for (x,) in loader:
        total = total + model(x.cuda()).square().mean()
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
