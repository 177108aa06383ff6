# HEALTHY: each sample's latest output is kept under its index, for temporal ensembling
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ensemble = {}
model = nn.Linear(128, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.arange(64), torch.rand(64, 128)), batch_size=16, shuffle=True)
for epoch in range(14):
    for indices, x in loader:
        out = model(x.cuda())
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for index, row in zip(indices.tolist(), out.detach(), strict=True):
            ensemble[index] = row.clone()
