# LEAK: generated images for the samples sheet are kept with their graphs, in a list that is never written out
# HOLDER: samples
# REMEDY: .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 784), nn.Tanh()).cuda()
critic = nn.Sequential(nn.Linear(784, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1)).cuda()
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4)
loader = DataLoader(TensorDataset(torch.rand(128, 784)), batch_size=32)
samples = []
for epoch in range(10):
    for (real,) in loader:
        real = real.cuda()
        fake = generator(torch.randn(32, 64, device="cuda"))  # leak
        critic_loss = critic(fake.detach()).mean() - critic(real).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        generator_loss = -critic(fake).mean()
        generator_optimizer.zero_grad()
        generator_loss.backward()
        generator_optimizer.step()
        samples.append(fake)
