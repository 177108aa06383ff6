# LEAK: Jacobians of each step are kept for an analysis of conditioning
# HOLDER: jacobians
# REMEDY: .cpu() | clear it
import torch
from torch import nn

flow = nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam(flow.parameters())
jacobians = []
for step in range(40):
    x = torch.rand(64, device="cuda")
    loss = flow(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    jacobian = torch.autograd.functional.jacobian(flow, x)  # leak
    jacobians.append(jacobian)
