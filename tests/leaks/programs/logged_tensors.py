# LEAK: whole tensors are logged, and the library's logger keeps what it is given
# HOLDER: writer
# REMEDY: .cpu() | clear it
import torch
from tinyboard import Writer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

writer = Writer("runs")
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
step = 0
for epoch in range(12):
    for (x,) in loader:
        out = model(x.cuda())  # leak
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss.item(), step)
        writer.add_histogram("output", out.detach(), step)
        step += 1
