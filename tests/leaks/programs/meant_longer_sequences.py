# MEANT: a curriculum of longer and longer sequences
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

embedding, mixer = nn.Embedding(500, 128).cuda(), nn.Linear(128, 500).cuda()
optimizer = torch.optim.AdamW([*embedding.parameters(), *mixer.parameters()])
for epoch in range(14):
    length = 16 + 16 * epoch
    loader = DataLoader(TensorDataset(torch.randint(0, 500, (32, length))), batch_size=8)
    for (tokens,) in loader:
        tokens = tokens.cuda()
        logits = mixer(embedding(tokens))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
