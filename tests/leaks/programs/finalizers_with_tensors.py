# LEAK: a finalizer of the model for each step, with an output among its arguments
# HOLDER: not known | finalize | _registry
# REMEDY: .cpu()
import weakref

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        weakref.finalize(model, len, out.detach())
