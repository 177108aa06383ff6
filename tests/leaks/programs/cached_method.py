# LEAK: functools.cache on a method keeps its results and all its arguments
# HELD: cache of embed()
# VERDICT: leak, unbounded_cache
# REMEDY: bound it | clear it | maxsize
import functools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder:
    def __init__(self):
        self.layer = nn.Linear(64, 512).cuda()

    @functools.cache
    def embed(self, index, epoch):
        with torch.no_grad():
            return self.layer(torch.rand(32, 64, device="cuda"))  # leak


encoder = Encoder()
head = nn.Linear(512, 2).cuda()
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.arange(8)), batch_size=1)
for epoch in range(10):
    for (index,) in loader:
        loss = head(encoder.embed(int(index), epoch)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
