# HEALTHY: a GAN whose samples for the sheet come from the same noise and replace each other
# EPOCHS: data_loader, 11 ended, 36 steps
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

generator = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 784), nn.Tanh()).cuda()
critic = nn.Sequential(nn.Linear(784, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1)).cuda()
optimizers = [torch.optim.Adam(net.parameters(), lr=2e-4) for net in (generator, critic)]
fixed_noise = torch.randn(64, 64, device="cuda")
sheet = None
for epoch in range(12):
    for (real,) in DataLoader(TensorDataset(torch.rand(96, 784)), batch_size=32):
        fake = generator(torch.randn(32, 64, device="cuda"))
        optimizers[1].zero_grad()
        (critic(fake.detach()).mean() - critic(real.cuda()).mean()).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        (-critic(fake).mean()).backward()
        optimizers[0].step()
    with torch.no_grad():
        sheet = generator(fixed_noise)
