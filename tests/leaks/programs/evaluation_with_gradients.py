# LEAK: an evaluation without no_grad sums its losses, and the sum of each epoch is kept
# HELD: list 'history'
# VERDICT: leak, no_grad_evaluation
# REMEDY: torch.no_grad()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

history = []
model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
optimizer = torch.optim.Adam(model.parameters())
data = TensorDataset(torch.rand(64, 128), torch.rand(64, 64))


def evaluate(loader):
    total = 0.0
    for x, y in loader:
        outputs = model(x.cuda())  # leak
        total = total + nn.functional.mse_loss(outputs, y.cuda())  # leak
    return total


training, evaluation = DataLoader(data, batch_size=16), DataLoader(data, batch_size=16)
for epoch in range(10):
    for x, y in training:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x.cuda()), y.cuda()).backward()
        optimizer.step()
    history.append(evaluate(evaluation))
