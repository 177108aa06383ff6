# LEAK: a new optimizer for each restart of the schedule, and all of them are kept with their state
# HOLDER: optimizers
# REMEDY: let go
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

optimizers = []
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
loader = DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16)
for restart in range(14):
    optimizers.append(torch.optim.Adam(model.parameters(), lr=1e-3 / (restart + 1)))
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        optimizers[-1].zero_grad()
        loss.backward()
        optimizers[-1].step()  # leak
