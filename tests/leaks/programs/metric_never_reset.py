# LEAK: a metric of a library with list states is updated in each epoch and never reset
# HELD: list 'value' of CatMetric 'auroc'
# VERDICT: leak, metric_state
# REMEDY: reset()
import torch
from tinymetrics import CatMetric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

auroc = CatMetric()  # holder
model = nn.Linear(128, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)
for epoch in range(10):
    for (x,) in loader:
        scores = model(x.cuda())  # leak
        optimizer.zero_grad()
        scores.mean().backward()
        optimizer.step()
        auroc.update(scores.detach())
    print(epoch, auroc.compute().shape)
