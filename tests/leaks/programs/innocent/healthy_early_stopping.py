# HEALTHY: early stopping with a patience of four epochs and one copy of the best weights
# VALUES: cpu
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class EarlyStopping:
    def __init__(self, patience):
        self.patience = patience
        self.best = float("inf")
        self.state = None
        self.waited = 0

    def step(self, score, model):
        if score < self.best - 1e-4:
            self.best, self.waited = score, 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.waited += 1
        return self.waited >= self.patience


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(torch.rand(64, 64)), batch_size=16)
stopping = EarlyStopping(patience=4)
for epoch in range(30):
    for (x,) in loader:
        x = x.cuda()
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if stopping.step(loss.item(), model):
        break
