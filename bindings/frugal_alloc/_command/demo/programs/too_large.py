"""A language model whose batch is too large for the GPU: too_large.py ours|pytorch BATCH."""

import sys

import torch
from torch import nn

if sys.argv[1] == "ours":
    import frugal_alloc

    frugal_alloc.enable()

WORDS = 16_000
batch = int(sys.argv[2])
layers = [nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(4)]
model = nn.Sequential(nn.Embedding(WORDS, 512), *layers, nn.Linear(512, WORDS)).cuda()
optimizer = torch.optim.AdamW(model.parameters())

for _ in range(3):
    texts = torch.randint(WORDS, (batch, 257), device="cuda")
    scores = model(texts[:, :-1])
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), texts[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"trained; at most {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB of tensors")
