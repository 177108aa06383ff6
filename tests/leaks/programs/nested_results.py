# LEAK: a nested dictionary of results by epoch and batch
# HOLDER: results
# REMEDY: .cpu() | bound it | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

results = {"config": {"lr": 0.1}, "epochs": {}}
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=results["config"]["lr"])
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    results["epochs"][epoch] = {"loss": [], "outputs": {}}
    for index, (x,) in enumerate(loader):
        out = model(x.cuda())  # leak
        loss = out.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        results["epochs"][epoch]["loss"].append(loss.item())
        results["epochs"][epoch]["outputs"][index] = out.detach()
