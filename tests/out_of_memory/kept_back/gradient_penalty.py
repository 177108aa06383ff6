# ERROR: A gradient penalty keeps the graph of the backward pass as well, for a second backward pass.
# ROOM: 1990
# RUNS: training
# VERDICT: too_big
# REQUEST: 29,30
# LARGEST: 77
# CHANGE batch: BATCH = 110 -> BATCH = {n}
# CHANGE half: critic.train() -> critic.train()\ntorch.set_autocast_enabled("cuda", True)
# BEST: batch
# WORKS: batch, half
import torch
from torch import nn

BATCH = 110
PENALTY = 10.0


def critic_network():
    layers = []
    for inputs, outputs in [(3, 64), (64, 128), (128, 256)]:
        layers += [nn.Conv2d(inputs, outputs, 5, stride=2, padding=2), nn.SiLU()]
        layers += [nn.Conv2d(outputs, outputs, 3, padding=1), nn.SiLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(256 * 12 * 12, 1)).cuda()


def gradient_penalty(critic, real, fake):
    mix = torch.rand(len(real), 1, 1, 1, device=real.device)
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    scores = critic(between)
    (slope,) = torch.autograd.grad(scores.sum(), between, create_graph=True)
    return ((slope.flatten(1).norm(dim=1) - 1) ** 2).mean()


critic = critic_network()
critic.train()
optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
for _ in range(2):
    real = torch.rand(BATCH, 3, 96, 96).cuda()
    fake = torch.rand(BATCH, 3, 96, 96).cuda()
    loss = critic(fake).mean() - critic(real).mean()
    loss = loss + PENALTY * gradient_penalty(critic, real, fake)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
