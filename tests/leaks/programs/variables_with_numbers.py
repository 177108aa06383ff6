# LEAK: the features of each epoch get a variable of their own
# HELD: series of variables 'features_0', 'features_1', ...
# VERDICT: leak, unknown
# REMEDY: let it go
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
batch = torch.rand(64, 128).cuda()
for epoch in range(12):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x.cuda()).mean().backward()
        optimizer.step()
    with torch.no_grad():
        globals()[f"features_{epoch}"] = model(batch)  # leak
