# MEANT: layers are unfrozen one by one, each with its gradients and its optimizer state
# NOTE: which is taken for meant
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

layers = [nn.Linear(256, 256) for _ in range(14)]
model = nn.Sequential(*layers).cuda()
model.requires_grad_(False)
optimizer = torch.optim.Adam(layers[-1].requires_grad_(True).parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16)
for epoch in range(14):
    if epoch:
        layer = layers[-1 - epoch].requires_grad_(True)
        optimizer.add_param_group({"params": layer.parameters()})
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
