# ERROR: A diffusion model of 96 by 96 images with time embeddings: a batch of 72.
# ROOM: 2410
# RUNS: training
# VERDICT: too_big
# REQUEST: 30
# LARGEST: 42
# CHANGE batch: BATCH = 72 -> BATCH = {n}
# CHANGE half: denoiser = Denoiser().cuda() -> denoiser = Denoiser().cuda()\ntorch.set_autocast_enabled("cuda", True)
# CHANGE checkpoint: x = block(x, time) -> x = torch.utils.checkpoint.checkpoint(block, x, time, use_reentrant=False)
# BEST: batch
# WORKS: batch, checkpoint
import torch
import torch.nn.functional as F
from torch import nn

BATCH = 72
STEPS = 1000


class ResBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, width), nn.GroupNorm(8, width)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(128, width)

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(y)))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = nn.Embedding(STEPS, 128)
        self.first = nn.Conv2d(3, 80, 3, padding=1)
        self.blocks = nn.ModuleList(ResBlock(80) for _ in range(3))
        self.last = nn.Conv2d(80, 3, 3, padding=1)

    def forward(self, x, t):
        time = self.times(t)
        x = self.first(x)
        for block in self.blocks:
            x = block(x, time)
        return self.last(x)


denoiser = Denoiser().cuda()
optimizer = torch.optim.AdamW(denoiser.parameters(), lr=1e-4)
kept_signal = torch.linspace(0.9999, 0.98, STEPS).cumprod(0).cuda()
for _ in range(2):
    x0 = torch.rand(BATCH, 3, 96, 96).cuda() * 2 - 1
    t = torch.randint(0, STEPS, (BATCH,)).cuda()
    a = kept_signal[t].view(-1, 1, 1, 1)
    noise = torch.randn_like(x0)
    loss = F.mse_loss(denoiser(a.sqrt() * x0 + (1 - a).sqrt() * noise, t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
