# LEAK: an ExitStack gets a callback for each batch, and is closed at the end of the run
# HOLDER: stack
# REMEDY: .cpu() | clear it | let it go
import contextlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def show(values):
    print(tuple(values.shape))


def main():
    model = nn.Linear(128, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with contextlib.ExitStack() as stack:
        for epoch in range(12):
            for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
                out = model(x.cuda())  # leak
                optimizer.zero_grad()
                out.mean().backward()
                optimizer.step()
                stack.callback(show, out.detach())


main()
