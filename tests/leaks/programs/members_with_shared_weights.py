# LEAK: members of an ensemble share their weights, but each has a gradient of its own, and all members are kept
# HELD: list 'ensemble'
# THROUGH: parameter 'weight' of Linear
# VERDICT: leak, model_rebuilt
# REMEDY: let go
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

shared = torch.ones(64, 256, device="cuda")
ensemble = []
model = nn.Linear(256, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(32, 256)), batch_size=8):
        x = x.cuda()
        member = nn.Linear(256, 64, bias=False)
        member.weight = nn.Parameter(shared)
        ensemble.append(member)
        optimizer.zero_grad()
        (member(x).sum() + model(x).sum()).backward()  # leak
        optimizer.step()
