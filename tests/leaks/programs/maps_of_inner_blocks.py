# LEAK: each block of a transformer keeps its attention maps
# HELD: list 'maps' of Block
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.mix = nn.Linear(size, size)
        self.maps = []

    def forward(self, x):
        weights = (self.mix(x) @ x.transpose(1, 2)).softmax(dim=-1)  # leak
        self.maps.append(weights.detach())
        return x + weights @ x


class Model(nn.Module):
    def __init__(self, size, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(size) for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


model = Model(64, 3).cuda()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(24, 48, 64)), batch_size=8):
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
