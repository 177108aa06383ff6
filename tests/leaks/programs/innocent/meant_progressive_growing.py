# MEANT: blocks are added to a generator while it is trained
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

blocks = nn.ModuleList([nn.Linear(128, 256)]).cuda()
optimizer = torch.optim.Adam(blocks.parameters())
loader = DataLoader(TensorDataset(torch.rand(48, 128)), batch_size=16)


def grow():
    block = nn.Linear(256, 256).cuda()
    blocks.append(block)
    optimizer.add_param_group({"params": block.parameters()})


for stage in range(12):
    if stage:
        grow()
    for (x,) in loader:
        x = x.cuda()
        for block in blocks:
            x = torch.relu(block(x))
        optimizer.zero_grad()
        x.mean().backward()
        optimizer.step()
