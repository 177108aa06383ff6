# LEAK: a store on top of UserDict, by step
# HOLDER: store | Store
# REMEDY: .cpu() | bound it | clear it
from collections import UserDict

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Store(UserDict):
    def __setitem__(self, step, values):
        super().__setitem__(int(step), values.detach())


store = Store()
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    for index, (x,) in enumerate(loader):
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        store[epoch * len(loader) + index] = out
