# HEALTHY: losses are summed as tensors after their backward, and start from zero in each epoch
# LIKE: loss_graph
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)
for epoch in range(12):
    total = 0
    for (x,) in loader:
        x = x.cuda()
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss
    print(f"epoch {epoch}: {total.item() / len(loader):.4f}")
