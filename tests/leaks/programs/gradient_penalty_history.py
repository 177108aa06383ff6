# LEAK: gradient penalties with create_graph=True are kept for logging
# HOLDER: penalties
# REMEDY: .item() | .detach()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

critic = nn.Sequential(nn.Linear(128, 256), nn.Tanh(), nn.Linear(256, 1)).cuda()
optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-5)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)
penalties = []


def penalty_of(samples):
    samples = samples.clone().requires_grad_(True)  # leak
    scores = critic(samples)  # leak
    (gradient,) = torch.autograd.grad(scores.sum(), samples, create_graph=True)  # leak
    return (gradient.norm(dim=1) - 1).pow(2).mean()  # leak


for epoch in range(12):
    for (real,) in loader:
        real = real.cuda()
        loss = -critic(real).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        penalties.append(penalty_of(real))
