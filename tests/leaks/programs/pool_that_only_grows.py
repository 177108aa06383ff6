# LEAK: a pool of fakes that replaces at random, but was given a size that it never reaches
# HOLDER: images
# REMEDY: .cpu() | bound it | clear it
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ImagePool:
    def __init__(self, size):
        self.size = size
        self.images = []

    def query(self, image):
        if len(self.images) < self.size:
            self.images.append(image.clone())  # leak
        else:
            self.images[random.randrange(self.size)] = image.clone()


pool = ImagePool(1_000_000)
generator = nn.Linear(64, 4096).cuda()
optimizer = torch.optim.Adam(generator.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 64)), batch_size=8)
for epoch in range(12):
    for (x,) in loader:
        fake = generator(x.cuda())
        optimizer.zero_grad()
        fake.mean().backward()
        optimizer.step()
        pool.query(fake.detach())
