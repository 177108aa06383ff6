# HEALTHY: the hidden state of a recurrent model is detached after each batch
# LIKE: hidden_state
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Recurrent(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner, self.outer = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x, hidden):
        for step in range(x.shape[1]):
            hidden = torch.tanh(self.inner(x[:, step]) + self.outer(hidden))
        return hidden


model = Recurrent(128).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(64, 8, 128)), batch_size=16)
for epoch in range(12):
    hidden = torch.zeros(16, 128, device="cuda")
    for (x,) in loader:
        hidden = model(x.cuda(), hidden)
        loss = hidden.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hidden = hidden.detach()
