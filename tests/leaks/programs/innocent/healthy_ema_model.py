# HEALTHY: an averaged copy of the model is updated in place
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Average:
    def __init__(self, model, decay=0.99):
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.shadow.parameters(), model.parameters(), strict=True):
            mine.lerp_(theirs, 1 - self.decay)


model = nn.Linear(512, 512).cuda()
average = Average(model)
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(64, 512)), batch_size=16):
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
