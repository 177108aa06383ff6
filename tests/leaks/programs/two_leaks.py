# LEAK: two lists at once: the outputs of the training and those of the evaluation
# HOLDER: trained | evaluated
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

trained, evaluated = [], []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
test_loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        out = model(x.cuda())  # leak
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        trained.append(out.detach())
    with torch.no_grad():
        for (x,) in test_loader:
            evaluated.append(model(x.cuda()).square())  # leak
