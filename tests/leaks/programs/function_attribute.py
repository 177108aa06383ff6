# LEAK: a function keeps its results in an attribute of its own
# HOLDER: results | score
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def score(x):
    out = model(x)  # leak
    score.results.append(out.detach())
    return out.mean()


score.results = []
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        optimizer.zero_grad()
        score(x.cuda()).backward()
        optimizer.step()
