# LEAK: what is kept in every third epoch, from the eighth epoch on, and beneath batches of very different sizes
# VERDICT: leak, outputs_kept
# REMEDY: .cpu() | clear it
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@torch.no_grad()
def evaluate(model, loader):
    for (x,) in loader:
        scores = model(x.cuda())
        matrices.append(scores.T @ scores)  # leak: list 'matrices'


random.seed(21)
matrices, drawn, codes = [], [], []
model = nn.Linear(128, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
test = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=32)
for epoch in range(30):
    for (x,) in train:
        # A hundred times as large as what is kept of it.
        images = torch.rand(random.randint(100, 6000), 128, device="cuda")
        loss = model(x.cuda()).mean() + model(images).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            codes.append(model(images[:64]))  # leak: list 'codes'
            if epoch >= 7:
                drawn.append(model(images[:64]))  # leak: list 'drawn'
    if epoch % 3 == 0:
        evaluate(model, test)
