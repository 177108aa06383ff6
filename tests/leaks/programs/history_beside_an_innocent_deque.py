# LEAK: outputs are in a list of all and in a deque of the last eight; the list is to blame
# HELD: list 'everything'
# REMEDY: .cpu() | clear it
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

latest = deque(maxlen=8)
everything = []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        latest.append(out.detach())
        everything.append(latest[-1])
