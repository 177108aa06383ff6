# LEAK: one dictionary is pruned to its last ten steps, and another beside it is not
# HELD: dict 'weights_of'
# REMEDY: bound it | clear it | .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

outputs_of, weights_of = {}, {}
model = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32):
        out = model(x.cuda())
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        outputs_of[step] = out.detach()
        weights_of[step] = model.weight.detach().clone()  # leak
        outputs_of.pop(step - 10, None)
        step += 1
