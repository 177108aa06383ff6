# HEALTHY: the latest error is kept, with its frames, and replaces the one before it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

latest = None
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def check(batch):
    with torch.no_grad():
        scores = model(batch)
    raise ValueError(f"{scores.shape[0]} scores are not plausible")


for epoch in range(14):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        x = x.cuda()
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
        try:
            check(x)
        except ValueError as error:
            latest = error
