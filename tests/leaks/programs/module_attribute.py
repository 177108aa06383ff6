# LEAK: outputs are put into a list of another module of the project
# HELD: list 'shared_seen'
# REMEDY: .cpu() | clear it
import torch
from project import state
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        state.shared_seen.append(out.detach())
