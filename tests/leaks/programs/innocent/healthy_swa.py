# HEALTHY: stochastic weight averaging, which begins in the sixth epoch
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).cuda()
averaged = None
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
loader = DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16)
for epoch in range(14):
    for (x,) in loader:
        loss = model(x.cuda()).logsumexp(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch >= 5:
        averaged = averaged or AveragedModel(model)
        averaged.update_parameters(model)
