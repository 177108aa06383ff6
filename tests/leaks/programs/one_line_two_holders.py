# LEAK: outputs of one line go to a bounded deque and, one in four, to a list without a bound
# HOLDER: interesting
# REMEDY: .cpu() | clear it
from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

latest = deque(maxlen=12)
interesting = []
model = nn.Linear(128, 1024).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=32)
for epoch in range(14):
    for index, (x,) in enumerate(loader):
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        (interesting if index % 4 == 3 else latest).append(out.detach())
