# HEALTHY: a list from whose front entries are popped
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

window = []
model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(16):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32):
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        window.append(model.weight.grad.clone())
        if len(window) > 10:
            window.pop(0)
        model.weight.grad.copy_(torch.stack(window).mean(dim=0))
        optimizer.step()
