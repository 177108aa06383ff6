# HEALTHY: two pools that fill one after the other, each replaced at random
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Pool:
    def __init__(self, size):
        self.size, self.entries = size, []

    def put(self, entry):
        if len(self.entries) == self.size:
            self.entries.pop(random.randrange(self.size))
        self.entries.append(entry)


random.seed(22)
easy, hard = Pool(20), Pool(30)
model = nn.Linear(128, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=32)
for epoch in range(22):
    for (x,) in loader:
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        if epoch >= 4 and random.random() < 0.5:
            hard.put(out.detach().clone())
        else:
            easy.put(out.detach())
