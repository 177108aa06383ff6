# HEALTHY: multi-scale training, with another image size every few batches
import random

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

random.seed(9)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
model = model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loader = DataLoader(TensorDataset(torch.rand(64, 3, 32, 32)), batch_size=8)
size = 32
for epoch in range(12):
    for index, (images,) in enumerate(loader):
        if index % 3 == 0:
            size = random.choice([24, 32, 40, 48, 56, 64])
        images = F.interpolate(images.cuda(), size=(size, size))
        loss = model(images).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
