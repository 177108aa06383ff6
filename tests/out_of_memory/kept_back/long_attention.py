# ERROR: Attention written out over one document of 5200 tokens: scores of tokens times tokens for each head.
# ROOM: 2170
# RUNS: training
# VERDICT: too_big
# REQUEST: 32,57
# CHANGE longest: MAX_TOKENS = 5200 -> MAX_TOKENS = {n}
# CHANGE checkpoint: x = layer(x) -> x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
# CHANGE half: tagger = Tagger().cuda() -> tagger = Tagger().cuda()\ntorch.set_autocast_enabled("cuda", True)
# BEST: longest
# WORKS: longest, checkpoint
import math

import torch
from torch import nn

MAX_TOKENS = 5200
WIDTH, HEADS = 256, 4


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)

    def split(self, x):
        return x.view(*x.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        weights = scores.softmax(-1)
        return self.norm(x + (weights @ v).transpose(1, 2).reshape(x.shape))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30000, WIDTH)
        self.layers = nn.ModuleList(SelfAttention() for _ in range(3))
        self.tags = nn.Linear(WIDTH, 9)

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.tags(x)


tagger = Tagger().cuda()
optimizer = torch.optim.Adam(tagger.parameters(), lr=1e-4)
for tokens in (900, 1700, 9000, 1200):
    ids = torch.randint(0, 30000, (1, tokens))[:, :MAX_TOKENS].cuda()
    tags = torch.randint(0, 9, ids.shape).cuda()
    loss = nn.functional.cross_entropy(tagger(ids).transpose(1, 2), tags)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
