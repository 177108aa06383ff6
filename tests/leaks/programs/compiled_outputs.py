# LEAK: outputs of a compiled model are kept after each evaluation
# HOLDER: kept
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

net = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 512)).cuda()
compiled = torch.compile(net, backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
kept = []
for epoch in range(10):
    for (x,) in loader:
        optimizer.zero_grad()
        compiled(x.cuda()).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        for (x,) in loader:
            kept.append(compiled(x.cuda()))  # leak
