# HEALTHY: ten epochs of a small model, then ten of a larger one that takes over its weights
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16)


def fit(model, epochs):
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        for (x,) in loader:
            x = x.cuda()
            loss = (model(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


small = fit(nn.Linear(256, 256).cuda(), 10)
large = nn.Sequential(small, *[nn.Linear(256, 256) for _ in range(4)]).cuda()
fit(large, 10)
