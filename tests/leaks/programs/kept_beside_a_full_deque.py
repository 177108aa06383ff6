# LEAK: an extension keeps every output; the deque that has all of them at first is full later, and innocent
# HOLDER: not known
# REMEDY: C++ extension
import ctypes
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

latest = deque(maxlen=30)
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=32)
for epoch in range(16):
    for (x,) in loader:
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        latest.append(out.detach())
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(latest[-1]))
