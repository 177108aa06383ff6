# HEALTHY: every loss is kept as a tensor on the GPU, without its graph
# LIKE: loss_graph
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

losses = []
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
for epoch in range(10):
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        losses.append(loss.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
