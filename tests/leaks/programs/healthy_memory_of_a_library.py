# HEALTHY: a C library takes memory of the GPU's after each epoch, and gives it back
# LIKE: outside
import ctypes

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

library = ctypes.CDLL(None)
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
for epoch in range(10):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
    buffer = ctypes.c_void_p()
    assert library.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(8 << 20)) == 0
    assert library.cudaFree(buffer) == 0
