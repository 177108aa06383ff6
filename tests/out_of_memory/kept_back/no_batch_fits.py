# ERROR: Training of a model whose weights, gradients and AdamW states exceed the GPU with any batch.
# ROOM: 1760
# RUNS: training
# VERDICT: too_big
# REQUEST: 44
# LARGEST: 0
# CHANGE batch: BATCH = 8 -> BATCH = {n}
# CHANGE foreach: weight_decay=0.1) -> weight_decay=0.1, foreach=False)
# CHANGE checkpoint: x = layer(x) -> x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
# CHANGE optimizer: optim.AdamW( -> optim.SGD(
# BEST: optimizer
# WORKS: optimizer
import torch
from torch import nn

BATCH = 8
VOCAB, WIDTH = 20000, 1024


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 16, 4096, batch_first=True, norm_first=True) for _ in range(6)
        )
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


lm = LM().cuda()
optimizer = torch.optim.AdamW(lm.parameters(), lr=1e-4, weight_decay=0.1)
for _ in range(2):
    ids = torch.randint(0, VOCAB, (BATCH, 129)).cuda()
    logits = lm(ids[:, :-1])
    loss = nn.functional.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
