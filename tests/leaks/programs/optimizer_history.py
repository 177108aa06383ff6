# LEAK: copies of the optimizer's state dictionary after each epoch, on the GPU
# HOLDER: history
# REMEDY: .cpu() | on the host
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(512, 512).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 512)), batch_size=32)
history = []
for epoch in range(12):
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    history.append(copy.deepcopy(optimizer.state_dict()))  # leak
