# HEALTHY: a reservoir sample of thirty batches, replaced ever more rarely
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

random.seed(11)
reservoir = []
seen = 0
model = nn.Linear(512, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(256, 512)), batch_size=32)
for epoch in range(16):
    for (x,) in loader:
        x = x.cuda()
        seen += 1
        if len(reservoir) < 30:
            reservoir.append(x)
        elif (place := random.randrange(seen)) < 30:
            reservoir[place] = x
        rehearsal = random.choice(reservoir)
        loss = model(x).square().mean() + model(rehearsal).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
