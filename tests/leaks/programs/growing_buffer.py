# LEAK: a buffer is replaced by itself with the batch's keys at its end
# HELD: buffer 'bank' of WithBank
# REMEDY: bound its size | on the host
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class WithBank(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(128, 256)
        self.register_buffer("bank", torch.zeros(0, 256))

    def forward(self, x):
        keys = self.project(x)
        self.bank = torch.cat([self.bank, keys.detach()])  # leak
        return keys


model = WithBank().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)
for epoch in range(14):
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
