# LEAK: the latest ten outputs are kept in a deque, and one in five in a dictionary that nothing is taken from
# HOLDER: for_inspection
# REMEDY: .cpu() | clear it | bound it
from collections import deque

import torch
from torch import nn


def main():
    recent, for_inspection = deque(maxlen=10), {}
    model = nn.Linear(256, 2048).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(150):
        out = model(torch.rand(32, 256, device="cuda"))  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        recent.append(out.detach())
        if step % 5 == 0:
            for_inspection[step] = out.detach()


main()
