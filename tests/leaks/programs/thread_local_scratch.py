# LEAK: scratch buffers in a threading.local, a new one for each step
# HELD: list 'scratch' in _local 'local'
# REMEDY: .cpu() | clear it | bound it
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

local = threading.local()
local.scratch = []


def normalised(x):
    buffer = torch.empty(64, 512, device="cuda")  # leak
    local.scratch.append(buffer)
    torch.div(x, 2.0, out=buffer)
    return buffer


model = nn.Linear(512, 16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(256, 512)), batch_size=64)
for epoch in range(12):
    for (x,) in loader:
        loss = model(normalised(x.cuda())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
