# HEALTHY: gradient checkpointing, and weights saved to disk after each epoch
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

blocks = nn.ModuleList(nn.Sequential(nn.Linear(128, 128), nn.GELU()) for _ in range(4)).cuda()
optimizer = torch.optim.SGD(blocks.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(10):
    for (x,) in loader:
        x = x.cuda()
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False)
        optimizer.zero_grad()
        x.square().mean().backward()
        optimizer.step()
    torch.save(blocks.state_dict(), "latest.pt")
