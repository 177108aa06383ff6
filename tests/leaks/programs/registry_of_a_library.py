# LEAK: a library files what it is given in a list of its module, and the program gives it whole outputs
# HELD: list 'registry' of tinymetrics.py
# REMEDY: .cpu()
import tinymetrics
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32):
        output = model(x.cuda())  # leak
        optimizer.zero_grad()
        output.mean().backward()
        optimizer.step()
        tinymetrics.register(output.detach())
