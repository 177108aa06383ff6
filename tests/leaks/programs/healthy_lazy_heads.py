# HEALTHY: heads are made when their task is first seen, all within some epochs, and then trained
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

heads = nn.ModuleDict()
body = nn.Linear(128, 512).cuda()
optimizer = torch.optim.Adam(body.parameters())
for epoch in range(18):
    for index, (x,) in enumerate(DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=16)):
        task = str((epoch + index) % 6)
        if task not in heads:
            heads[task] = nn.Linear(512, 128).cuda()
            optimizer.add_param_group({"params": heads[task].parameters()})
        loss = heads[task](torch.relu(body(x.cuda()))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
