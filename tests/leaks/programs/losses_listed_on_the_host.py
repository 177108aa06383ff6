# LEAK: losses are listed on the host, where their graphs still keep what is on the GPU
# HELD: list 'losses'
# VERDICT: leak, loss_graph
# REMEDY: .item() | .detach()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

losses = []
model = nn.Linear(64, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 64)), batch_size=32):
        x = x.cuda()  # leak
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        losses.append(model(x).square().mean().cpu())  # leak
