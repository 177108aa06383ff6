# LEAK: inputs whose loss is above the median are gathered in each epoch for a second pass that never comes
# HOLDER: hard
# REMEDY: .cpu() | clear it
# VALUES: cpu
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
hard = []
model = nn.Linear(512, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(96, 512), torch.rand(96, 64)), batch_size=32)
for epoch in range(12):
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        losses = (model(x) - y).square().mean(dim=1)
        optimizer.zero_grad()
        losses.mean().backward()
        optimizer.step()
        hard.append(x[losses > losses.median()])  # leak
