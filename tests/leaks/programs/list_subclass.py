# LEAK: a history that is a subclass of list
# HOLDER: history
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class History(list):
    def latest(self):
        return self[-1]


history = History()
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        history.append(model(x.cuda()))  # leak
        optimizer.zero_grad()
        history.latest().square().mean().backward()
        optimizer.step()
