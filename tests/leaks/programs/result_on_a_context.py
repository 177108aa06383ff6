# LEAK: an autograd.Function stores its own result on ctx, which makes a cycle that the collector does not see
# HELD: ctx.y of Doubled
# VERDICT: leak, context_attribute
# REMEDY: save_for_backward
import gc

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        ctx.y = values * 2  # leak
        return ctx.y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


gc.disable()
model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 64)), batch_size=32):
        x = x.cuda()  # leak
        optimizer.zero_grad()
        Doubled.apply(model(x)).square().mean().backward()  # leak
        optimizer.step()
