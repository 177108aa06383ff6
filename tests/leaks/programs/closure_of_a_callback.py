# LEAK: the function that counts outputs keeps them in a list of the function that made it
# HELD: list 'enclosed' in the closure of <lambda>()
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def counting():
    enclosed = []
    return lambda output: enclosed.append(output) or len(enclosed)


count = counting()
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32):
        output = model(x.cuda())  # leak
        optimizer.zero_grad()
        output.mean().backward()
        optimizer.step()
        count(output.detach())
