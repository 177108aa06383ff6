# LEAK: functions for after the training are listed, each with a batch as the default of its argument
# HELD: list 'callbacks'
# THROUGH: tensor 'batch', a default argument of <lambda>()
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

callbacks = []
model = nn.Linear(512, 16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 512)), batch_size=32):
        inputs = x.cuda()  # leak
        optimizer.zero_grad()
        model(inputs).mean().backward()
        optimizer.step()
        callbacks.append(lambda batch=inputs: print(batch.shape))
