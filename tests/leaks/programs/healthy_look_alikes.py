# HEALTHY: what looks like leaks of these patterns, and ends with its step or epoch, has a bound, or is replaced
# LIKE: loss_graph | metric_state | hooks_added | unbounded_cache | reference_cycle | stored_exception | checkpoint_copy
import copy
import functools
import random
import weakref

import torch
from tinymetrics import CatMetric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Recorder:
    def __init__(self, module):
        self.handle = module.register_forward_hook(self.keep)
        self.output = None

    def keep(self, module, args, output):
        self.output = output.detach()

    def close(self):
        self.handle.remove()


class Tree:
    def __init__(self, values):
        self.values = values
        self.root = weakref.ref(self)


@functools.lru_cache(maxsize=16)
def encoding(length):
    return torch.arange(length, device="cuda").float()[:, None].expand(length, 64).contiguous()


def check(scores, index):
    doubled = scores * 2
    if index % 3 == 2:
        raise RuntimeError(f"batch {index} of {len(doubled)} has no labels")


lengths = random.Random(5)
losses, failures, auroc = [], [], CatMetric()
best, best_score = None, float("inf")
model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 64)).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=16)
for epoch in range(16):
    total = 0
    for index, (x,) in enumerate(loader):
        recorder = Recorder(model[0])
        scores = model(x.cuda())
        recorder.close()
        loss = scores.square().mean() + encoding(lengths.randrange(100, 200)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        total += loss
        auroc.update(scores.detach())
        Tree(torch.ones(1 << 20, device="cuda"))
        try:
            check(scores, index)
        except RuntimeError as error:
            failures.append(str(error))
    print(epoch, total.item() / len(loader), auroc.compute().shape)
    auroc.reset()
    score = 1.0 / (epoch + 1)
    if score < best_score and epoch % 2 == 0:
        best, best_score = copy.deepcopy(model.state_dict()), score
