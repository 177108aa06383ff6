# ERROR: Adapters of rank 16 on a frozen base: 12 prompts of 768 tokens, whose activations the adapters need.
# ROOM: 1560
# RUNS: training
# VERDICT: too_big
# REQUEST: 64
# LARGEST: 8
# CHANGE batch: per_device_batch = 12 -> per_device_batch = {n}
# CHANGE checkpoint: h = h + block(h) -> h = h + torch.utils.checkpoint.checkpoint(block, h, use_reentrant=False)
# CHANGE half: model = Model().cuda() -> model = Model().cuda()\ntorch.set_autocast_enabled("cuda", True)
# CHANGE chunk_loss: return self.lm_head(h) -> return h
# CHANGE chunk_loss: optimizer = torch -> def part(x, y):\noptimizer = torch
# CHANGE chunk_loss: \noptim -> \n    logits = model.lm_head(x).flatten(0, 1)\noptim
# CHANGE chunk_loss: \noptim -> \n    return nn.functional.cross_entropy(logits, y.flatten())\n\n\noptim
# CHANGE chunk_loss: loss = nn.functional.cross_entropy(logits -> parts = zip(logits
# CHANGE chunk_loss: .flatten(0, 1), -> .chunk({n}),
# CHANGE chunk_loss: ids[:, 1:].flatten()) -> ids[:, 1:].chunk({n}))\n    later = torch.utils.checkpoint.checkpoint
# CHANGE chunk_loss: optimizer.z -> loss = sum(later(part, *p, use_reentrant=False) for p in parts)\n    optimizer.z
# BEST: batch
# WORKS: batch, checkpoint, half, chunk_loss
import torch
from torch import nn

per_device_batch = 12
tokens, dim, vocab = 768, 640, 8000


class LoraLinear(nn.Module):
    def __init__(self, inputs, outputs, rank=16):
        super().__init__()
        self.base = nn.Linear(inputs, outputs)
        self.base.requires_grad_(False)
        self.down = nn.Linear(inputs, rank, bias=False)
        self.up = nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + 2.0 * self.up(self.down(x))


def make_block():
    return nn.Sequential(nn.LayerNorm(dim), LoraLinear(dim, 1728), nn.SiLU(), LoraLinear(1728, dim))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim).requires_grad_(False)
        self.blocks = nn.ModuleList(make_block() for _ in range(6))
        self.lm_head = nn.Linear(dim, vocab, bias=False).requires_grad_(False)

    def forward(self, ids):
        h = self.embed(ids)
        for block in self.blocks:
            h = h + block(h)
        return self.lm_head(h)


model = Model().cuda()
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trainable, lr=2e-4)
for _ in range(3):
    ids = torch.randint(0, vocab, (per_device_batch, tokens)).cuda()
    logits = model(ids)
    loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
