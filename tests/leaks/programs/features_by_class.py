# LEAK: features are gathered by class in a defaultdict, for prototypes that are computed at the end
# HOLDER: by_class
# REMEDY: .cpu() | bound it | clear it
from collections import defaultdict

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

by_class = defaultdict(list)
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
labels = torch.arange(128) % 4
loader = DataLoader(TensorDataset(torch.rand(128, 128), labels), batch_size=32)
for epoch in range(12):
    for x, y in loader:
        features = model(x.cuda())
        optimizer.zero_grad()
        features.mean().backward()
        optimizer.step()
        for label in range(4):
            by_class[label].append(features.detach()[(y == label).nonzero()[:, 0].cuda()])  # leak
