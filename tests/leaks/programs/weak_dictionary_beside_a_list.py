# LEAK: outputs are in a weak dictionary and in a list; the list is to blame
# HELD: list 'kept'
# REMEDY: .cpu() | clear it
import weakref

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

by_step = weakref.WeakValueDictionary()
kept = []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32):
        output = model(x.cuda())  # leak
        optimizer.zero_grad()
        output.mean().backward()
        optimizer.step()
        by_step[len(kept)] = output = output.detach()
        kept.append(output)
