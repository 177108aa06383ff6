# LEAK: a timer for each step, which would write its output in an hour
# HOLDER: args | Timer | not known
# REMEDY: cancel | .cpu()
import threading

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def write_later(values):
    timer = threading.Timer(3600, torch.save, args=[values, "late.pt"])
    timer.daemon = True
    timer.start()


model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        write_later(out.detach())
