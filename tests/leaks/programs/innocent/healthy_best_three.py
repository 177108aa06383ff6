# HEALTHY: the three best weights by a loss that falls in each epoch, so that each replaces another
# VALUES: cpu
import heapq

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
loader = DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16)
best = []
for epoch in range(16):
    total = 0.0
    for (x,) in loader:
        x = x.cuda()
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    entry = (-total, epoch, model.weight.detach().clone())
    if len(best) < 3:
        heapq.heappush(best, entry)
    else:
        heapq.heappushpop(best, entry)
