# HEALTHY: a training that is caught out of memory once and goes on with half the batch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(256, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
failed = 0


def train_step(x):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for epoch in range(14):
    for index, (x,) in enumerate(DataLoader(TensorDataset(torch.rand(128, 256)), batch_size=32)):
        try:
            if epoch == 3 and index == 1:
                torch.empty(64 << 30, dtype=torch.uint8, device="cuda")
            train_step(x.cuda())
        except torch.OutOfMemoryError:
            failed += 1
            for half in x.chunk(2):
                train_step(half.cuda())
print(failed)
