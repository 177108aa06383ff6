# LEAK: a C extension takes a reference to each batch, and gives it back never
# HOLDER: not known
# VERDICT: leak, unknown
# REMEDY: no Python variable was found
import ctypes

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(512, 16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 512)), batch_size=32):
        inputs = x.cuda()  # leak
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(inputs))
        optimizer.zero_grad()
        model(inputs).mean().backward()
        optimizer.step()
