# HEALTHY: outputs are gathered and written to disk every third epoch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pending = []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(18):
    for (x,) in loader:
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        pending.append(out.detach())
    if epoch % 3 == 2:
        torch.save(torch.cat(pending).cpu(), "outputs.pt")
        pending.clear()
