# HEALTHY: an autograd.Function saves its own result as PyTorch has it
# LIKE: context_attribute
import gc

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        y = values * 2
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


gc.disable()
model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 64)), batch_size=32):
        x = x.cuda()
        optimizer.zero_grad()
        Doubled.apply(model(x)).square().mean().backward()
        optimizer.step()
