# HEALTHY: one copy of the best weights, replaced whenever the model improves
# LIKE: checkpoint_copy
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 16)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(64, 256)), batch_size=16)
best, best_score = None, float("inf")
for epoch in range(14):
    for (x,) in loader:
        loss = model(x.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    score = 1.0 / (epoch + 1)
    if score < best_score and epoch % 2 == 0:
        best, best_score = copy.deepcopy(model.state_dict()), score
model.load_state_dict(best)
