# LEAK: who holds batches is not known: a C extension, code that is called at the exit, storages without tensors
# VERDICT: leak, unknown
# REMEDY: no Python variable was found
import atexit
import ctypes

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class State:
    latest = None


# It has one of them, and is innocent.
state = State()
storages = []
model = nn.Linear(512, 16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 512)), batch_size=32):
        inputs = x.cuda()  # leak: not known
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(inputs))
        state.latest = x.cuda()  # leak: not known
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(state.latest))
        optimizer.zero_grad()
        model(inputs).mean().backward()
        optimizer.step()
        storages.append((inputs + 1).untyped_storage())  # leak: not known
        atexit.register(len, inputs + 1)  # leak: not known
