# LEAK: the last prediction of each epoch is kept, of a batch of another size each time, so that few are of one size
# HELD: list 'kept'
# VERDICT: leak, outputs_kept
# EPOCHS: data_loader, 11 ended, 48 steps
# RATE: 18.00 MiB
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 4096).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(4, 128)))
kept = []
for epoch in range(12):
    for (x,) in loader:
        out = model(x.cuda().repeat(1024 + 128 * (epoch % 3), 1))  # leak
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()
    kept.append(out.detach())
