# LEAK: records with __slots__ in a list of named tuples
# HOLDER: episodes
# REMEDY: .cpu() | clear it
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Output:
    __slots__ = ("logits", "loss")

    def __init__(self, loss, logits):
        self.loss, self.logits = loss, logits


class Episode(NamedTuple):
    number: int
    output: Output


def main():
    episodes = []
    model = nn.Linear(128, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(12):
        for number, (x,) in enumerate(DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)):
            logits = model(x.cuda())  # leak
            loss = logits.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            episodes.append(Episode(number, Output(loss.item(), logits.detach())))


main()
