# ERROR: entries of a data set are pairs, and one of them is much longer than the others
# ROOM: 500
# VERDICT: too_big
# FIRST: a batch of (\d+) (?:fits|would have fit).* this one is of 8:
# FITS-AFTER: batch_size=8 -> batch_size=\1
# FAILS-AFTER: batch_size=8 -> batch_size=2 * \1
# THEN: samples of at most (\d+): the longest of this batch has 1024, the usual one 256
# FITS-AFTER: MOST = 2048 -> MOST = \1
import torch
from project.models import WIDTH, layers, optimizer_of
from torch import nn

MOST = 2048
lengths = [256] * 32 + [1024] + [256] * 7
model = nn.Sequential(nn.Embedding(1000, WIDTH), *layers(4)).cuda()
optimizer = optimizer_of(model)


def pairs_together(entries: list[int]) -> torch.Tensor:
    return torch.zeros(2 * len(entries), min(max(entries), MOST), dtype=torch.long)


for words in torch.utils.data.DataLoader(lengths, batch_size=8, collate_fn=pairs_together):
    loss = model(words.cuda()).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
