# HEALTHY: all outputs are kept, on the host
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

history = []
model = nn.Linear(128, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        history.append(out.detach().cpu())
