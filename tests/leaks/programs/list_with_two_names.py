# LEAK: outputs are in a bounded deque and in a list, which is a variable and an attribute of an object as well
# HELD: list 'everything'
# REMEDY: .cpu() | clear it
import collections

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Box:
    pass


def main():
    recent, box = collections.deque(maxlen=5), Box()
    box.everything = everything = []
    model = nn.Linear(128, 512).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        for (x,) in DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32):
            output = model(x.cuda())  # leak
            recent.append(output.detach())
            everything.append(recent[-1])
            optimizer.zero_grad()
            output.mean().backward()
            optimizer.step()


main()
