# LEAK: each loss has its output as an attribute, and the losses are listed
# HOLDER: losses
# REMEDY: .cpu() | .item() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

losses = []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        out = model(x.cuda())  # leak
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        loss.output = out.detach()
        losses.append(loss)
