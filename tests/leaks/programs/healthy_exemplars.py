# HEALTHY: class-incremental learning whose exemplars of all classes share a fixed budget
import torch
from torch import nn

BUDGET = 48
exemplars = {}
model = nn.Linear(2048, 32).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for task in range(12):
    images = torch.rand(48, 2048, device="cuda")
    for step in range(4):
        rehearsal = [torch.stack(kept) for kept in exemplars.values()]
        loss = model(torch.cat([images, *rehearsal])).logsumexp(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    exemplars[task] = [image.clone() for image in images]
    for kept in exemplars.values():
        del kept[BUDGET // len(exemplars) :]
