# LEAK: bound methods of result objects wait in a list of callbacks
# HOLDER: on_exit
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Result:
    def __init__(self, values):
        self.values = values

    def publish(self):
        print(self.values.shape)


on_exit = []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    for (x,) in DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32):
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        on_exit.append(Result(out.detach()).publish)
