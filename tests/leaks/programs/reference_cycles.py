# LEAK: each batch makes objects that refer to each other, and only the garbage collector frees them
# HOLDER: not known
# REMEDY: break the cycle | gc.collect()
import gc

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Node:
    def __init__(self, value, parent=None):
        self.value = value
        self.parent = parent
        self.children = []
        if parent is not None:
            parent.children.append(self)


gc.disable()
model = nn.Linear(256, 2048).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(14):
    for (x,) in DataLoader(TensorDataset(torch.rand(256, 256)), batch_size=64):
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        root = Node(out.detach())
        child = Node(None, root)
