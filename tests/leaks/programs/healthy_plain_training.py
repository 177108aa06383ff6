# HEALTHY: an ordinary training with Adam and a scheduler
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(TensorDataset(torch.rand(128, 64), torch.randint(0, 10, (128,))), batch_size=32, shuffle=True)
for epoch in range(12):
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    scheduler.step()
    print(epoch, total / len(loader))
