# LEAK: the weights are cloned on the GPU whenever the validation loss falls, and it falls in each epoch
# HOLDER: snapshots
# REMEDY: .cpu() | on the host | clear it
# VALUES: cpu
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.rand(64, 256)
model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
loader = DataLoader(TensorDataset(inputs), batch_size=16)
snapshots, best = [], float("inf")
for epoch in range(14):
    for (x,) in loader:
        x = x.cuda()
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        validation = (model(inputs.cuda()) - inputs.cuda()).square().mean().item()
    if validation < best:
        best = validation
        snapshots.append([parameter.detach().clone() for parameter in model.parameters()])  # leak
