# HEALTHY: batches of sentences, each padded to its longest
import random

import torch
from torch import nn
from torch.utils.data import DataLoader

random.seed(2)
sentences = [torch.randint(0, 1000, (random.randrange(10, 200),)) for _ in range(96)]


def collate(batch):
    return nn.utils.rnn.pad_sequence(batch, batch_first=True)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(1000, 128)
        self.mixer = nn.Linear(128, 256)
        self.tags = nn.Linear(256, 20)

    def forward(self, tokens):
        return self.tags(torch.relu(self.mixer(self.embedding(tokens))))


model = Tagger().cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(sentences, batch_size=12, shuffle=True, collate_fn=collate)
for epoch in range(14):
    for tokens in loader:
        loss = model(tokens.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
