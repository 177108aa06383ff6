# LEAK: a memory bank in a ParameterList that nothing is taken from
# HOLDER: bank | model | slots
# VERDICT: leak, unbounded_cache
# REMEDY: bound it | clear it | let it go | .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(128, 256)
        self.slots = nn.ParameterList()

    def forward(self, x):
        out = self.layer(x)  # leak
        self.slots.append(nn.Parameter(out.detach(), requires_grad=False))
        return out


model = Memory().cuda()
optimizer = torch.optim.SGD(model.layer.parameters(), lr=0.1)
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
