# LEAK: clones of all gradients at each step, to look at their norms later
# HOLDER: recorded
# REMEDY: .cpu() | clear it | bound it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

recorded = {"weight": [], "bias": []}
model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        for name, parameter in model.named_parameters():
            recorded[name].append(parameter.grad.clone())  # leak
        optimizer.step()
