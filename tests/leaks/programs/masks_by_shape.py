# LEAK: a cache of masks by shape, where the shape is never the same twice
# HELD: dict '_masks'
# VERDICT: leak, unbounded_cache
# REMEDY: bound it | clear it
import torch
from torch import nn

_masks = {}


def causal_mask(length, window):
    key = (length, window)
    if key not in _masks:
        _masks[key] = torch.ones(length, length, device="cuda").tril()  # leak
    return _masks[key]


model = nn.Linear(128, 128).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(100):
    x = torch.rand(128, 128, device="cuda")
    loss = (causal_mask(128, step) @ model(x)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
