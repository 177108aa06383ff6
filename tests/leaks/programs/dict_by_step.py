# LEAK: snapshots of activations in a dictionary by the global step
# HOLDER: snapshots
# REMEDY: bound it | clear it | .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

snapshots = {}
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(128, 64)), batch_size=32)
global_step = 0
for epoch in range(12):
    for (x,) in loader:
        output = model(x.cuda())  # leak
        optimizer.zero_grad()
        output.abs().mean().backward()
        optimizer.step()
        snapshots[global_step] = output.detach()
        global_step += 1
