# LEAK: a mutable default argument gathers outputs
# HELD: list 'seen', a default argument of forward()
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)


def forward(x, seen=[]):  # holder
    out = model(x)  # leak
    seen.append(out.detach())
    return out, len(seen)


for epoch in range(10):
    for (x,) in loader:
        out, count = forward(x.cuda())
        optimizer.zero_grad()
        out.pow(2).mean().backward()
        optimizer.step()
