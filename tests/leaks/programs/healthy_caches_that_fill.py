# HEALTHY: caches and buffers of a known size fill up until the end, each kept to its bound in a way of its own
# NOTE: fills up: it has
# LIKE: unbounded_cache | outputs_kept
import functools
from collections import OrderedDict, deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@functools.lru_cache(maxsize=500)
def table(step):
    return torch.zeros(64, 128, device="cuda")


class LeastRecentlyUsed:
    def __init__(self, capacity):
        self.capacity = capacity
        self.entries = OrderedDict()

    def put(self, key, value):
        self.entries[key] = value
        if len(self.entries) > self.capacity:
            self.entries.popitem(last=False)


class Replay:
    __slots__ = ("_items", "_max_size")

    def __init__(self):
        self._max_size, self._items = 400, []

    def add(self, item):
        if len(self._items) == self._max_size:
            self._items.pop(0)
        self._items.append(item)


class Recent(OrderedDict):
    maxsize = property(lambda self: self._Recent__maxsize)

    def __init__(self, maxsize):
        super().__init__()
        self.__maxsize = maxsize


latest, recent, least, replay = deque(maxlen=300), Recent(300), LeastRecentlyUsed(300), Replay()
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=16)
for epoch in range(12):
    for index, (x,) in enumerate(loader):
        step = 8 * epoch + index
        out = model(x.cuda() + table(step).mean())
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
        out = out.detach()
        latest.append(out + 1)
        recent[step] = out + 1
        least.put(step, out + 1)
        replay.add(out + 1)
