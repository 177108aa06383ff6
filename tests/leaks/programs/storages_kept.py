# LEAK: the storages of outputs are kept, for a hash of their bytes
# HOLDER: storages | not known
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

storages = []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        hidden = model(x.cuda())  # leak
        optimizer.zero_grad()
        hidden.mean().backward()
        optimizer.step()
        storages.append(hidden.untyped_storage())
