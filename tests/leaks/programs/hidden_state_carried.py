# LEAK: the hidden state carries its graph from step to step, as does the running mean of a normalisation
# VERDICT: leak, hidden_state
# REMEDY: state = state.detach() | self.running_mean = self.running_mean.detach()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Cell(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner = nn.Linear(size, size)
        self.outer = nn.Linear(size, size)

    def forward(self, x, hidden):
        mixed = self.inner(x) + self.outer(hidden)
        return torch.tanh(mixed)  # leak: tensor 'state'


class RunningNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))
        self.running_mean = torch.zeros(size)

    def forward(self, x):
        scaled = x * self.scale  # leak: tensor 'running_mean' of RunningNorm
        mean = scaled.square().mean(dim=0)
        self.running_mean = 0.9 * self.running_mean.to(x.device) + 0.1 * mean
        return scaled - self.running_mean.detach()


cell, norm, readout = Cell(256).cuda(), RunningNorm(256).cuda(), nn.Linear(256, 1).cuda()
optimizer = torch.optim.SGD([*cell.parameters(), *norm.parameters(), *readout.parameters()], lr=1e-3)
loader = DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16)
state = torch.zeros(16, 256, device="cuda")
for epoch in range(10):
    for (x,) in loader:
        x = x.cuda()  # leak: tensor 'state'
        state = cell(x, state)
        loss = readout(state.detach()).mean() + norm(x + 1).mean()  # leak: tensor 'running_mean' of RunningNorm
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
