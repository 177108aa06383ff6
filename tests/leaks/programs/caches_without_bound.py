# LEAK: a cache by shape, where the shape is never the same twice, and functools.cache on a method
# VERDICT: leak, unbounded_cache
# REMEDY: bound it | clear it | maxsize
import functools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

_masks = {}


def causal_mask(length, window):
    key = (length, window)
    if key not in _masks:
        _masks[key] = torch.ones(length, length, device="cuda").tril()  # leak: dict '_masks'
    return _masks[key]


class Encoder:
    def __init__(self):
        self.layer = nn.Linear(64, 128).cuda()

    @functools.cache
    def embed(self, index, epoch):
        with torch.no_grad():
            return self.layer(torch.rand(128, 64, device="cuda"))  # leak: cache of embed()


encoder = Encoder()
head = nn.Linear(128, 2).cuda()
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.arange(8)), batch_size=1)
for epoch in range(10):
    for (index,) in loader:
        mask = causal_mask(128, (epoch, int(index)))
        loss = head(mask @ encoder.embed(int(index), epoch)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
