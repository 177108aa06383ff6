# LEAK: a linked list of states, where each knows the one before it
# HELD: Node 'current'
# THROUGH: Node 'previous' of Node
# REMEDY: .cpu() | let it go
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Node:
    def __init__(self, state, previous):
        self.state = state
        self.previous = previous


model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
current = None
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        current = Node(out.detach(), current)
