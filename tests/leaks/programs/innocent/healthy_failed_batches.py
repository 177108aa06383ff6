# HEALTHY: batches that fail are logged by their message, and the exception is let go
# LIKE: stored_exception
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

failures = []
model = nn.Linear(256, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x, index):
    out = model(x.cuda())
    if index % 3 == 2:
        raise RuntimeError(f"batch {index} has no labels")
    optimizer.zero_grad()
    out.mean().backward()
    optimizer.step()


for epoch in range(14):
    for index, (x,) in enumerate(DataLoader(TensorDataset(torch.rand(192, 256)), batch_size=32)):
        try:
            step(x, index)
        except RuntimeError as error:
            failures.append(str(error))
