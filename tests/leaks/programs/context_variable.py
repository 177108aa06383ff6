# LEAK: a list in a context variable traces every layer's output
# HELD: list of the context variable 'trace'
# REMEDY: .cpu() | clear it
import contextvars

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

trace = contextvars.ContextVar("trace")


class Traced(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        out = self.inner(x)  # leak
        trace.get().append(out.detach())
        return out


model = Traced(nn.Linear(128, 512)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
trace.set([])
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()
