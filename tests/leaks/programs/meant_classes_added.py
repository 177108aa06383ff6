# MEANT: class-incremental learning: a head of 16 classes is added for each task
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Incremental(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(128, 1024)
        self.heads = nn.ModuleList()

    def add_task(self, classes):
        self.heads.append(nn.Linear(1024, classes).to(self.backbone.weight.device))

    def forward(self, x):
        hidden = torch.relu(self.backbone(x))
        return torch.cat([head(hidden) for head in self.heads], dim=1)


model = Incremental().cuda()
for task in range(10):
    model.add_task(16)
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
    for epoch in range(2):
        for (x,) in loader:
            loss = model(x.cuda()).logsumexp(dim=1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
