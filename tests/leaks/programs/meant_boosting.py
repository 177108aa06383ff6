# MEANT: boosting: a small network is added to the ensemble in each round and used from then on
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ensemble = []
data = TensorDataset(torch.rand(64, 128), torch.rand(64, 1))
for round_number in range(12):
    learner = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1)).cuda()
    optimizer = torch.optim.Adam(learner.parameters())
    for x, y in DataLoader(data, batch_size=16):
        x, y = x.cuda(), y.cuda()
        with torch.no_grad():
            known = sum(0.1 * other(x) for other in ensemble) if ensemble else 0.0
        loss = nn.functional.mse_loss(learner(x), y - known)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    optimizer.zero_grad()
    ensemble.append(learner.requires_grad_(False).eval())
