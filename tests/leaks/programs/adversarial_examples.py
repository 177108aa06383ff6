# LEAK: adversarial inputs are kept together with their gradients
# HOLDER: examples
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def perturb(model, x, examples):
    x = x.clone().requires_grad_(True)  # leak
    loss = model(x).logsumexp(dim=1).sum()  # leak
    loss.backward()
    examples.append(x)
    return (x + 0.1 * x.grad.sign()).detach()


def main():
    examples = []
    model = nn.Linear(512, 10).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(12):
        for (x,) in DataLoader(TensorDataset(torch.rand(96, 512)), batch_size=32):
            attacked = perturb(model, x.cuda(), examples)
            optimizer.zero_grad()
            model(attacked).mean().backward()
            optimizer.step()


main()
