# LEAK: buffers whose bound is more than the GPU holds, a cache that is never cut to its bound, and graphs in a deque
# REMEDY: lower that | bound it | detach
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Cache:
    def __init__(self, capacity):
        self.capacity = capacity
        self.entries = {}

    def put(self, key, value):
        self.entries[key] = value


history, buffer, cache, losses = [], deque(maxlen=1_000_000), Cache(8), deque(maxlen=2000)
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=16)
for epoch in range(12):
    for index, (x,) in enumerate(loader):
        out = model(x.cuda())  # leak: deque 'losses'
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        buffer.append(torch.zeros(64, 128, device="cuda"))  # leak: deque 'buffer'
        history.append(torch.zeros(48, 128, device="cuda"))  # leak: list 'history'
        if len(history) > 1_000_000:
            history.pop(0)
        cache.put((epoch, index), torch.ones(32, 64, device="cuda"))  # leak: dict 'entries' of Cache
        losses.append((out.tanh() * out).sum())  # leak: deque 'losses'
