# HEALTHY: a library's metric with list states is reset after each epoch
# LIKE: metric_state
import torch
from tinymetrics import CatMetric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

auroc = CatMetric()
model = nn.Linear(128, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=16)
for epoch in range(14):
    for (x,) in loader:
        scores = model(x.cuda())
        optimizer.zero_grad()
        scores.mean().backward()
        optimizer.step()
        auroc.update(scores.detach())
    print(epoch, auroc.compute().shape)
    auroc.reset()
