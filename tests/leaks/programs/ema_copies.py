# LEAK: a copy of the weights after each epoch, for averaging at the end
# HELD: list 'checkpoints'
# REMEDY: .cpu() | on the host
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=32)
checkpoints = []
for epoch in range(12):
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    checkpoints.append(copy.deepcopy(model.state_dict()))  # leak
