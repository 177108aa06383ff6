# LEAK: the hidden state carries its graph from step to step
# HELD: tensor 'state'
# VERDICT: leak, hidden_state
# REMEDY: detach
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Cell(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner = nn.Linear(size, size)
        self.outer = nn.Linear(size, size)

    def forward(self, x, hidden):
        mixed = self.inner(x) + self.outer(hidden)  # leak
        return torch.tanh(mixed)  # leak


cell = Cell(256).cuda()
readout = nn.Linear(256, 1).cuda()
optimizer = torch.optim.SGD([*cell.parameters(), *readout.parameters()], lr=1e-3)
loader = DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16)
state = torch.zeros(16, 256, device="cuda")
for epoch in range(10):
    for (x,) in loader:
        x = x.cuda()  # leak
        state = cell(x, state)
        loss = readout(state.detach()).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
