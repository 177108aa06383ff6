# ERROR: A GAN with two optimizers: 160 images of 128 by 128 pass both networks.
# ROOM: 1450
# RUNS: training
# VERDICT: too_big
# REQUEST: 44
# LARGEST: 99
# CHANGE batch: batch_size = 160 -> batch_size = {n}
# CHANGE half: adversarial = -> torch.set_autocast_enabled("cuda", True)\nadversarial =
# BEST: batch
# WORKS: batch, half
import torch
from torch import nn

batch_size = 160
noise_size = 100


def generator():
    layers, inputs = [nn.ConvTranspose2d(noise_size, 512, 4), nn.ReLU()], 512
    for outputs in (256, 128, 64, 32):
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, 2, 1), nn.BatchNorm2d(outputs), nn.ReLU()]
        inputs = outputs
    return nn.Sequential(*layers, nn.ConvTranspose2d(inputs, 3, 4, 2, 1), nn.Tanh())


def discriminator():
    layers, inputs = [], 3
    for outputs in (64, 128, 256, 512):
        layers += [nn.Conv2d(inputs, outputs, 4, 2, 1), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2)]
        inputs = outputs
    return nn.Sequential(*layers, nn.Conv2d(inputs, 1, 8), nn.Flatten(0))


artist = generator().cuda()
critic = discriminator().cuda()
optimizer_g = torch.optim.Adam(artist.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_d = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
adversarial = nn.BCEWithLogitsLoss()
for _ in range(2):
    real = torch.rand(batch_size, 3, 128, 128).cuda()
    fake = artist(torch.randn(batch_size, noise_size, 1, 1).cuda())
    optimizer_d.zero_grad()
    loss_real = adversarial(critic(real), torch.ones(batch_size).cuda())
    loss_fake = adversarial(critic(fake.detach()), torch.zeros(batch_size).cuda())
    (loss_real + loss_fake).backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    loss_g = adversarial(critic(fake), torch.ones(batch_size).cuda())
    loss_g.backward()
    optimizer_g.step()
