# ERROR: An encoder of audio frames whose layers are checkpointed already: what a layer computes anew does not fit.
# ROOM: 700
# RUNS: training
# VERDICT: too_big
# REQUEST: 31
# LARGEST: 15
# CHANGE batch: clips_per_batch = 26 -> clips_per_batch = {n}
# CHANGE half: optimizer = torch -> torch.set_autocast_enabled("cuda", True)\noptimizer = torch
# BEST: batch
# WORKS: batch, half
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

clips_per_batch = 26
frames = 750


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 6, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.shrink = nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = nn.functional.gelu(self.expand(self.norm2(x)))
        return x + self.shrink(y)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(80, 384)
        self.layers = nn.ModuleList(Layer(384) for _ in range(8))
        self.classes = nn.Linear(384, 35)

    def forward(self, x):
        x = self.project(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.classes(x.mean(1))


encoder = Encoder().to("cuda")
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-4)
for _ in range(2):
    clips = torch.randn(clips_per_batch, frames, 80).to("cuda")
    words = torch.randint(0, 35, (clips_per_batch,)).to("cuda")
    loss = nn.functional.cross_entropy(encoder(clips), words)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
