# LEAK: every evaluation appends its outputs to one list, under no_grad
# HOLDER: all_outputs
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

all_outputs = []


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    for (x,) in loader:
        all_outputs.append(model(x.cuda()))  # leak
    model.train()


model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
test = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in train:
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()
    evaluate(model, test)
