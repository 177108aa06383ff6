# HEALTHY: adversarial training whose input gradients end with the step
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(torch.rand(128, 512), torch.randint(0, 10, (128,))), batch_size=32)
for epoch in range(12):
    for x, y in loader:
        x, y = x.cuda().requires_grad_(True), y.cuda()
        for _ in range(2):
            (gradient,) = torch.autograd.grad(criterion(model(x), y), x)
            x = (x + 0.01 * gradient.sign()).detach().requires_grad_(True)
        optimizer.zero_grad()
        criterion(model(x.detach()), y).backward()
        optimizer.step()
