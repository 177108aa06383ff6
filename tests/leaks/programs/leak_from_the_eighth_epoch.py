# LEAK: samples are drawn and kept from the eighth epoch on
# HOLDER: drawn
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

drawn = []
model = nn.Linear(128, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(22):
    for (x,) in loader:
        x = x.cuda()
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        if epoch >= 7:
            with torch.no_grad():
                drawn.append(model(x))  # leak
