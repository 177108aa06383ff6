# HEALTHY: the model is thrown away and built anew in each restart, by the same names
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16)
best = float("inf")
for restart in range(14):
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    best = min(best, loss.item())
