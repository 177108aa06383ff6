# HEALTHY: object detection: boxes and images of all sizes, some batches far larger than others
import random

import torch
from torch import nn
from torch.utils.data import DataLoader

random.seed(8)
images = [torch.rand(3, 8 * random.randint(3, 12), 8 * random.randint(3, 12)) for _ in range(64)]
backbone = nn.Conv2d(3, 16, 3, stride=2, padding=1).cuda()
head = nn.Linear(16, 8).cuda()
optimizer = torch.optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.01)
for epoch in range(14):
    random.shuffle(images)
    for batch in DataLoader(images, batch_size=8, collate_fn=list):
        loss = 0.0
        for image in batch:
            features = backbone(image.cuda()[None]).flatten(2).transpose(1, 2)
            loss = loss + head(features[:, : random.randint(5, 60)]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
