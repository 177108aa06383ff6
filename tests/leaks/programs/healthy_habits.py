# HEALTHY: a scaler, checkpointing, adversarial inputs, an averaged copy, episodes, and texts of which each has a cache
import copy
import random

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


@torch.no_grad()
def generate(token, length):
    cache = []
    for _ in range(length):
        cache.append(head(token))
        token = torch.cat(cache, dim=1).mean(dim=1, keepdim=True)
    return token.cpu()


random.seed(4)
blocks = nn.ModuleList(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(3)).cuda()
head = nn.Linear(256, 256).cuda()
average = copy.deepcopy(head).requires_grad_(False)
optimizer = torch.optim.AdamW([*blocks.parameters(), *head.parameters()])
scaler = torch.amp.GradScaler("cuda")
loader = DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        x = x.cuda().requires_grad_(True)
        (slope,) = torch.autograd.grad(head(x).square().mean(), x)
        y = (x + 0.01 * slope.sign()).detach()
        with torch.autocast("cuda", dtype=torch.float16):
            for block in blocks:
                y = checkpoint(block, y, use_reentrant=False)
            episode = [head(y[: random.randint(3, 30)]).log_softmax(dim=-1).mean() for _ in range(random.randint(3, 9))]
            loss = torch.stack(episode).mean() + nn.functional.mse_loss(head(y), x.detach())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        with torch.no_grad():
            average.weight.lerp_(head.weight, 0.01)
    generate(torch.rand(4, 1, 256, device="cuda"), 10 + epoch % 7)
