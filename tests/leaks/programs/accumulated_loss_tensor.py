# LEAK: with gradient accumulation, a consistency loss is added up over the run and backpropagated never
# HOLDER: consistency
# REMEDY: .item() | detach
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(128, 256)), batch_size=16)
consistency = torch.zeros((), device="cuda")
for epoch in range(10):
    for index, (x,) in enumerate(loader):
        x = x.cuda()  # leak
        (model(x).square().mean() / 4).backward()
        first, second = model(x), model(x * 0.9)  # leak
        consistency = consistency + (first - second).square().mean()  # leak
        if index % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
