# ERROR: One sequence, 2600 positions, 151936 words: the logits and their gradient in cross_entropy.
# ROOM: 2850
# RUNS: training
# VERDICT: too_big
# REQUEST: 30
# CHANGE chunk_loss: CHUNKS = 1 -> CHUNKS = {n}
# CHANGE chunk_loss: head_loss(x, y) -> torch.utils.checkpoint.checkpoint(head_loss, x, y, use_reentrant=False)
# CHANGE longest: positions = 2600 -> positions = {n}
# CHANGE half: head.cuda() -> head.cuda()\ntorch.set_autocast_enabled("cuda", True)
# BEST: chunk_loss
# WORKS: chunk_loss, longest
import torch
from torch import nn

positions = 2600
vocabulary = 151936
CHUNKS = 1

body = nn.GRU(256, 256, batch_first=True).cuda()
tokens = nn.Embedding(vocabulary, 256)
tokens.cuda()
head = nn.Linear(256, vocabulary, bias=False)
head.weight = tokens.weight
head.cuda()
optimizer = torch.optim.SGD([*body.parameters(), *tokens.parameters()], lr=0.05)


def head_loss(states, words):
    logits = head(states).float()
    return nn.functional.cross_entropy(logits, words, reduction="sum")


for _ in range(2):
    ids = torch.randint(0, vocabulary, (1, positions + 1)).cuda()
    hidden = body(tokens(ids[:, :-1]))[0][0]
    total = 0
    for x, y in zip(hidden.chunk(CHUNKS), ids[0, 1:].chunk(CHUNKS), strict=True):
        loss = head_loss(x, y)
        total = total + loss / positions
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
