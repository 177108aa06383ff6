# LEAK: a training without an optimizer object, whose residuals are kept
# HELD: list 'residuals'
# VERDICT: leak, outputs_kept
# REMEDY: .cpu() | clear it
import torch

torch.manual_seed(0)
weight = torch.randn(256, 256, device="cuda", requires_grad=True)
residuals = []
for iteration in range(120):
    x = torch.rand(64, 256, device="cuda")
    residual = x @ weight - x  # leak
    loss = residual.square().mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
        weight.grad = None
    residuals.append(residual.detach())
