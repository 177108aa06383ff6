# HEALTHY: a pool of fifty images that fills at one line and whose entries are replaced at random at another
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

random.seed(0)
pool = []
net = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(64, 64)), batch_size=8)
for epoch in range(14):
    for (x,) in loader:
        loss = net(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if len(pool) < 50:
            pool.append(torch.ones(64, 256, device="cuda"))
        else:
            pool[random.randrange(50)] = torch.ones(64, 256, device="cuda")
