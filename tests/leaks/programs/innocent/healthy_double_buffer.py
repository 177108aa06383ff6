# HEALTHY: the previous output is compared with the current one, and the two change places
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

previous = torch.zeros(32, 512, device="cuda")
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(14):
    for (x,) in loader:
        current = model(x.cuda())
        loss = (current - previous).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        previous = current.detach()
