# MEANT: an adapter for each new client is trained and stays loaded with the model
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(256, 256).requires_grad_(False)
        self.adapters = nn.ModuleDict()

    def forward(self, x, client):
        return self.base(x) + self.adapters[client](x)


model = Adapted().cuda()
for number in range(10):
    client = f"client{number}"
    model.adapters[client] = nn.Sequential(nn.Linear(256, 64), nn.Linear(64, 256)).cuda()
    optimizer = torch.optim.AdamW(model.adapters[client].parameters())
    for epoch in range(2):
        for (x,) in DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16):
            loss = model(x.cuda(), client).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
