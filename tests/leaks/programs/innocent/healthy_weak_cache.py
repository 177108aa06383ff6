# HEALTHY: a cache of weak references forgets what nobody else has
import weakref

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

cache = weakref.WeakValueDictionary()
model = nn.Linear(128, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=16)
step = 0
for epoch in range(12):
    for (x,) in loader:
        out = model(x.cuda())
        cache[step] = out
        step += 1
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
