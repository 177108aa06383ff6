# LEAK: a queue for a writer that was never started
# HELD: deque 'queue' of Queue 'to_write'
# REMEDY: .cpu() | clear it
import queue

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

to_write = queue.Queue()
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)
for epoch in range(10):
    for index, (x,) in enumerate(loader):
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        to_write.put((epoch, index, out.detach()))
