# LEAK: an unbounded functools cache of positional encodings, one for each length and batch
# HELD: cache of encoding()
# VERDICT: leak, unbounded_cache
# REMEDY: bound it | clear it | maxsize
import functools

import torch
from torch import nn

model = nn.Linear(128, 128).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@functools.lru_cache(maxsize=None)
def encoding(length, seed):
    positions = torch.arange(length, device="cuda").float()
    return torch.sin(positions[:, None] * torch.ones(128, device="cuda") + seed)  # leak


for step in range(100):
    length = 128
    x = torch.rand(length, 128, device="cuda")
    loss = model(x + encoding(length, step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
