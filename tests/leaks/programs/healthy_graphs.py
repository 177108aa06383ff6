# HEALTHY: a hidden state that is detached after each batch, a queue that is cut, a function that saves its own result
# LIKE: hidden_state | growing_concatenation | context_attribute
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


class Recurrent(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner, self.outer = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x, hidden):
        for step in range(x.shape[1]):
            hidden = torch.tanh(self.inner(x[:, step]) + self.outer(hidden))
        return hidden


# A cycle by way of a graph would stay.
gc.disable()
model = Recurrent(128).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(64, 8, 128)), batch_size=16)
negatives = torch.zeros(1, 128, device="cuda")
average = model.inner.weight.detach().clone()
for epoch in range(14):
    hidden = torch.zeros(16, 128, device="cuda")
    for (x,) in loader:
        hidden = model(x.cuda(), hidden)
        loss = (Doubled.apply(hidden) @ negatives.T).logsumexp(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hidden = hidden.detach()
        # Its graph goes on and on, and saves nothing on the GPU.
        average = 0.9 * average + 0.1 * model.inner.weight
        negatives = torch.cat([negatives, hidden])[-128:]
