# HEALTHY: a pool of fakes as in CycleGAN, filled at one line and replaced at random at another
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
            self.images.append(image.clone())
            return image
        if random.random() < 0.5:
            return image
        place = random.randrange(self.size)
        old = self.images[place]
        self.images[place] = image.clone()
        return old


random.seed(3)
pool = ImagePool(24)
generator = nn.Linear(64, 4096).cuda()
critic = nn.Linear(4096, 1).cuda()
optimizer = torch.optim.Adam(generator.parameters())
critic_optimizer = torch.optim.Adam(critic.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 64)), batch_size=8)
for epoch in range(16):
    for (x,) in loader:
        fake = generator(x.cuda())
        optimizer.zero_grad()
        critic(fake).mean().backward()
        optimizer.step()
        critic_optimizer.zero_grad()
        (-critic(pool.query(fake.detach())).mean()).backward()
        critic_optimizer.step()
