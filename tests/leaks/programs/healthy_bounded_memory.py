# HEALTHY: whatever is kept has a bound, is emptied now and then, is replaced, or is on the host
import functools
import heapq
import random
import weakref
from collections import defaultdict, deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@functools.cache
def encoding(length, epoch):
    return torch.arange(length, device="cuda").float()[:, None].repeat(1, 64)


def check(scores):
    doubled = scores * 2
    raise ValueError(f"{doubled.shape[0]} scores are not plausible")


scores = random.Random(3)
recent, latest, by_class = deque(maxlen=20), deque(maxlen=12), defaultdict(lambda: deque(maxlen=4))
window, best, best_of_epochs, ring, by_sample = [], [], [], [None] * 50, {}
by_first_use = {}
waiting, used = [torch.rand(64, 128, device="cuda") for _ in range(144)], []
pending, on_the_host, log, weak = [], [], [], weakref.WeakValueDictionary()
previous = torch.zeros(16, 512, device="cuda")
error = None
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=16)
for epoch in range(18):
    for index, (x,) in enumerate(loader):
        step = 8 * epoch + index
        out = model(x.cuda())
        loss = (out - previous).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.append(loss)
        out = out.detach()
        previous = out * 2
        recent.append(out + 1)
        latest.append(out + 1)
        if index == epoch % 8:
            best_of_epochs = [*best_of_epochs[-3:], out + 1]
        by_class[index % 8].append(out + 1)
        window.append(out + 1)
        if len(window) > 10:
            window.pop(0)
        heapq.heappush(best, (scores.random(), step, out + 1))
        if len(best) > 8:
            heapq.heappop(best)
        ring[step % 50] = out + 1
        by_sample[index] = out + 1
        if index not in by_first_use:
            by_first_use[index] = out + 1
        used.append((waiting.pop() - 0.5) / 0.3)
        pending.append(out + 1)
        on_the_host.append((out + 1).cpu())
        weak[step] = activation = out + 1
        encoding(50 + 10 * index, epoch)
        try:
            check(out + 1)
        except ValueError as raised:
            error = raised
    if epoch % 3 == 2:
        torch.save(torch.cat(pending).cpu(), "outputs.pt")
        pending.clear()
    encoding.cache_clear()
