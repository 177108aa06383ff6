# HEALTHY: Langevin dynamics: each sample moves along gradients that autograd.grad computes, without a module
import torch

weight = torch.randn(256, 256, device="cuda")
samples = []
for chain in range(20):
    x = torch.rand(64, 256, device="cuda")
    for step in range(6):
        x = x.detach().requires_grad_()
        energy = (x @ weight).tanh().square().sum()
        (slope,) = torch.autograd.grad(energy, x)
        x = x - 0.01 * slope + 0.01 * torch.randn_like(x)
    samples.append(x.detach().cpu())
print(len(samples))
