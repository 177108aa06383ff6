# LEAK: the outer losses of all tasks are added up and backpropagated never
# HOLDER: outer_loss
# REMEDY: .item() | detach
import torch
from torch.nn import functional as F

weight = torch.randn(128, 128, device="cuda", requires_grad=True)
outer_loss = 0.0
for task in range(60):
    x = torch.rand(64, 128, device="cuda")  # leak
    inner = F.linear(x, weight).tanh().mean()  # leak
    (gradient,) = torch.autograd.grad(inner, weight, create_graph=True)  # leak
    adapted = weight - 0.01 * gradient  # leak
    outer_loss = outer_loss + F.linear(x, adapted).square().mean()  # leak
