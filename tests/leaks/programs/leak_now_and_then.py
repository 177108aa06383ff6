# LEAK: every third epoch the evaluation keeps its confusion matrices
# HELD: list 'matrices'
# VERDICT: leak, outputs_kept
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

matrices = []


@torch.no_grad()
def evaluate(model, loader):
    for (x,) in loader:
        scores = model(x.cuda())
        matrices.append(scores.T @ scores)  # leak


model = nn.Linear(128, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
test = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=32)
for epoch in range(30):
    for (x,) in train:
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()
    if epoch % 3 == 0:
        evaluate(model, test)
