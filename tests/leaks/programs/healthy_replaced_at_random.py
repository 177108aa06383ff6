# HEALTHY: pools and samples that fill, and whose entries then make way at random, ever more rarely, or by use
import heapq
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Pool:
    def __init__(self, size, seed):
        self.size, self.entries, self.chance = size, [], random.Random(seed)

    def put(self, entry):
        if len(self.entries) == self.size:
            self.entries.pop(self.chance.randrange(self.size))
        self.entries.append(entry)


chance = random.Random(22)
easy, hard = Pool(20, 1), Pool(30, 2)
fakes, images, reservoir, useful = [], [], [], []
model = nn.Linear(128, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=32)
for epoch in range(22):
    for index, (x,) in enumerate(loader):
        step = 8 * epoch + index
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        out = out.detach()
        if epoch >= 4 and chance.random() < 0.5:
            hard.put(out + 1)
        else:
            easy.put(out + 1)
        if len(images) < 50:
            images.append(out + 1)
        else:
            images[chance.randrange(50)] = out + 1
        if len(fakes) < 24:
            fakes.append(out + 1)
        elif chance.random() < 0.5:
            fakes[chance.randrange(24)] = out + 1
        if len(reservoir) < 30:
            reservoir.append(out + 1)
        elif (place := chance.randrange(step + 1)) < 30:
            reservoir[place] = out + 1
        entry = (chance.random(), step, out + 1)
        if len(useful) < 40:
            heapq.heappush(useful, entry)
        else:
            heapq.heapreplace(useful, entry)
