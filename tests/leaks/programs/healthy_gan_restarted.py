# HEALTHY: generator and critic get new optimizers for each stage, and the old ones are let go
# EPOCHS: steps, 18 ended, 144 steps
import torch
from torch import nn

generator, critic = nn.Linear(128, 512).cuda(), nn.Linear(512, 1).cuda()
for stage in range(12):
    for_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
    for_critic = torch.optim.Adam(critic.parameters(), lr=1e-3)
    for step in range(4):
        for _ in range(3):
            fake = generator(torch.rand(32, 128, device="cuda")).detach()
            for_critic.zero_grad()
            (critic(fake).mean() - critic(torch.rand_like(fake)).mean()).backward()
            for_critic.step()
        for_generator.zero_grad()
        (-critic(generator(torch.rand(32, 128, device="cuda"))).mean()).backward()
        for_generator.step()
