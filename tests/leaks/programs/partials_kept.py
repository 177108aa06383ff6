# LEAK: functools.partial objects for after the training, with tensors as arguments
# HELD: list 'deferred'
# THROUGH: tuple 'args' of partial
# REMEDY: .cpu() | clear it
import functools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def save(values, path):
    torch.save(values.cpu(), path)


def main():
    deferred = []
    model = nn.Linear(128, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(12):
        for index, (x,) in enumerate(DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)):
            out = model(x.cuda())  # leak
            optimizer.zero_grad()
            out.mean().backward()
            optimizer.step()
            deferred.append(functools.partial(save, out.detach(), f"{epoch}-{index}.pt"))
    deferred[0]()


main()
