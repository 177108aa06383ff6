# LEAK: clones of the gradient at each step, beside its norm, which would do
# HELD: list 'weight' in dict 'recorded'
# VERDICT: leak, outputs_kept
# REMEDY: .cpu() | clear it | bound it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

recorded = {"weight": [], "norm": []}
model = nn.Linear(256, 256, bias=False).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32)
for epoch in range(10):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        recorded["weight"].append(model.weight.grad.clone())  # leak
        recorded["norm"].append(model.weight.grad.norm().item())
        optimizer.step()
