# LEAK: generators that were stopped half-way keep their local tensors
# HELD: list 'streams'
# THROUGH: variable 'table' of rows()
# REMEDY: .cpu() | clear it | let it go
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
streams = []


def rows(x):
    table = model(x).detach().clone()  # leak
    for row in table:
        yield row.square()


for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        x = x.cuda()  # leak
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        stream = rows(x)
        next(stream)
        streams.append(stream)
