# ERROR: A small GPT with its own output layer: the loss over 24 texts of 640 tokens.
# ROOM: 4180
# RUNS: training
# VERDICT: too_big
# REQUEST: 61,63
# LARGEST: 17
# CHANGE batch: batch = 24 -> batch = {n}
# CHANGE half: gpt = GPT().cuda() -> gpt = GPT().cuda()\ntorch.set_autocast_enabled("cuda", True)
# CHANGE checkpoint: x = block(x) -> x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
# CHANGE chunk_loss: return self.head(x) -> return x
# CHANGE chunk_loss: optimizer = torch -> def part(x, y):\noptimizer = torch
# CHANGE chunk_loss: \noptim -> \n    return F.cross_entropy(gpt.head(x).flatten(0, 1), y.flatten())\n\n\noptim
# CHANGE chunk_loss: loss = F.cross_entropy(logits.view(-1, vocab), -> parts = zip(logits.chunk({n}),
# CHANGE chunk_loss: labels.view(-1)) -> labels.chunk({n}))\n    later = torch.utils.checkpoint.checkpoint
# CHANGE chunk_loss: optimizer.z -> loss = sum(later(part, *p, use_reentrant=False) for p in parts)\n    optimizer.z
# BEST: batch
# WORKS: batch, half, checkpoint, chunk_loss
import torch
import torch.nn.functional as F
from torch import nn

vocab, width, context = 16000, 448, 640
batch = 24


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).view(*x.shape[:2], 3, 7, 64).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(x)


gpt = GPT().cuda()
optimizer = torch.optim.AdamW(gpt.parameters(), lr=6e-4)
for _ in range(3):
    ids = torch.randint(0, vocab, (batch, context + 1)).cuda()
    labels = ids[:, 1:].contiguous()
    logits = gpt(ids[:, :-1])
    loss = F.cross_entropy(logits.view(-1, vocab), labels.view(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
