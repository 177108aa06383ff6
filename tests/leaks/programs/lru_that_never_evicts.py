# LEAK: an LRU cache of the user's own compares with the wrong number and evicts nothing
# HOLDER: entries
# REMEDY: bound it | clear it
from collections import OrderedDict

import torch
from torch import nn


class LruCache:
    def __init__(self, capacity):
        self.capacity = capacity
        self.entries = OrderedDict()
        self.hits = 0

    def get(self, key, make):
        if key in self.entries:
            self.hits += 1
            self.entries.move_to_end(key)
            return self.entries[key]
        if self.hits > self.capacity:
            self.entries.popitem(last=False)
        self.entries[key] = make()
        return self.entries[key]


def main():
    cache = LruCache(8)
    model = nn.Linear(256, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(100):
        grid = cache.get(step, lambda: torch.rand(64, 256, device="cuda"))  # leak
        optimizer.zero_grad()
        model(grid).mean().backward()
        optimizer.step()


main()
