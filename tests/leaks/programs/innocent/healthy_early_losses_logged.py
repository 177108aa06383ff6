# HEALTHY: every loss is kept as a tensor after its backward: 512 bytes each
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = {"loss": [], "epoch": []}
model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(14):
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log["loss"].append(loss)
        log["epoch"].append(epoch)
