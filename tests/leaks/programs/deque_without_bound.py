# LEAK: a deque for a moving average that was given no maxlen
# HOLDER: recent
# REMEDY: .cpu() | clear it
import collections

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    recent = collections.deque()
    model = nn.Linear(128, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
    for epoch in range(12):
        for (x,) in loader:
            out = model(x.cuda())  # leak
            optimizer.zero_grad()
            out.mean().backward()
            optimizer.step()
            recent.append(out.detach())
            average = sum(one.mean() for one in list(recent)[-10:]) / 10
        print(epoch, tuple(average.shape))


main()
