# HEALTHY: an average of the weights drags its graph along, whose nodes save no tensor on the GPU
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(256, 256).cuda()
average = model.weight.detach().clone()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(14):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32):
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average = 0.9 * average + 0.1 * model.weight
