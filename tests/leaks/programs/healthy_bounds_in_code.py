# HEALTHY: caches and buffers fill up until the end, each kept to a bound that stands in the program's code alone
# NOTE: fills up: it has
# LIKE: unbounded_cache | outputs_kept
from collections import OrderedDict, deque
from heapq import heappop, heappush

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MOST = 300


class Embeddings:
    def __init__(self, most):
        self.most, self.by_key = most, {}

    def put(self, key, value):
        self.by_key[key] = value
        self._trim()

    def _trim(self):
        while len(self.by_key) > 2 * self.most:
            self.by_key.pop(next(iter(self.by_key)))


class Oldest(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        if len(self) > 400:
            self.popitem(last=False)


class Latest(deque):
    def __init__(self):
        super().__init__(maxlen=350)


def remember(key, value):
    if len(answers) >= MOST:
        answers.pop(next(iter(answers)))
    answers[key] = value


answers, ring, oldest, latest, embeddings = {}, {}, Oldest(), Latest(), Embeddings(150)
best, window, first = [], [], []
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=16)
for epoch in range(12):
    for index, (x,) in enumerate(loader):
        step = 8 * epoch + index
        out = model(x.cuda())
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
        out = out.detach()
        remember(step, out + 1)
        ring[step % 400] = out + 1
        oldest[step] = out + 1
        latest.append(out + 1)
        embeddings.put(step, out + 1)
        heappush(best, (step, out + 1))
        if len(best) > MOST:
            heappop(best)
        window.append(out + 1)
        window = window[-MOST:]
        if len(first) < 500:
            first.append(out + 1)
