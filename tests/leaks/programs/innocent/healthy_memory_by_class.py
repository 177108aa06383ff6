# HEALTHY: the last four features of each class, in bounded deques
from collections import defaultdict, deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

memory = defaultdict(lambda: deque(maxlen=4))
model = nn.Linear(128, 2048).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(128, 128), torch.arange(128) % 8), batch_size=16)
for epoch in range(14):
    for x, y in loader:
        features = model(x.cuda())
        optimizer.zero_grad()
        features.mean().backward()
        optimizer.step()
        for feature, label in zip(features.detach(), y.tolist(), strict=True):
            memory[label].append(feature.clone())
