# MEANT: the embedding table is enlarged as new words come
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Words:
    def __init__(self):
        self.table = nn.Embedding(256, 128).cuda()
        self.head = nn.Linear(128, 2).cuda()
        self.restart()

    def restart(self):
        self.optimizer = torch.optim.Adam([*self.table.parameters(), *self.head.parameters()])

    def enlarge(self, count):
        larger = nn.Embedding(self.table.num_embeddings + count, 128).cuda()
        with torch.no_grad():
            larger.weight[: self.table.num_embeddings] = self.table.weight
        self.table = larger
        self.restart()


words = Words()
for epoch in range(12):
    words.enlarge(128)
    known = words.table.num_embeddings
    for (tokens,) in DataLoader(TensorDataset(torch.randint(0, known, (64, 16))), batch_size=16):
        loss = words.head(words.table(tokens.cuda()).mean(dim=1)).logsumexp(dim=1).mean()
        words.optimizer.zero_grad()
        loss.backward()
        words.optimizer.step()
