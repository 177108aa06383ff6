# LEAK: a small kept output of each batch, beneath batches whose size differs by a hundred times as much
# HOLDER: codes
# REMEDY: .cpu() | clear it
import random

import torch
from torch import nn

random.seed(21)
codes = []
encoder, decoder = nn.Linear(256, 64).cuda(), nn.Linear(64, 256).cuda()
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
for step in range(160):
    x = torch.rand(random.randint(100, 3000), 256, device="cuda")
    loss = (decoder(encoder(x)) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        codes.append(encoder(x[:64]))  # leak
