# LEAK: a training goes over its data once, and one of its deques of recent outputs has no bound
# HELD: deque 'recent'
# VERDICT: leak, outputs_kept
# EPOCHS: steps, 16 ended, 64 steps
# REMEDY: .cpu() | clear it
import collections

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

recent, latest = collections.deque(), collections.deque(maxlen=3)
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for (x,) in DataLoader(TensorDataset(torch.rand(1024, 128)), batch_size=16):
    output = model(x.cuda())
    optimizer.zero_grad()
    output.square().mean().backward()
    optimizer.step()
    recent.append(output.detach() + 1)  # leak
    latest.append(output.detach() + 2)
