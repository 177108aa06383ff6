# LEAK: tensors in a numpy array of objects, one cell for each step
# HELD: ndarray 'table'
# REMEDY: .cpu() | clear it | let it go
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

table = np.empty((12, 4), dtype=object)
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)
for epoch in range(12):
    for index, (x,) in enumerate(loader):
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        table[epoch, index] = out.detach()
