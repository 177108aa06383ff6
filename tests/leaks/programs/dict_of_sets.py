# LEAK: tensors in sets by length, for deduplication by identity
# HELD: set in dict 'by_length'
# REMEDY: .cpu() | bound it | clear it
import torch
from torch import nn

by_length = {}
model = nn.Linear(256, 32).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(100):
    length = 32 + 16 * (step % 3)
    x = torch.rand(length, 256, device="cuda")  # leak
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    by_length.setdefault(length, set()).add(x)
