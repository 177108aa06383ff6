# HEALTHY: distillation from a frozen teacher
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

teacher = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 100)).cuda().eval()
student = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 100)).cuda()
optimizer = torch.optim.Adam(student.parameters())
loader = DataLoader(TensorDataset(torch.rand(96, 128)), batch_size=32)
for epoch in range(12):
    epoch_losses = []
    for (x,) in loader:
        x = x.cuda()
        with torch.no_grad():
            wanted = F.softmax(teacher(x) / 2, dim=1)
        loss = F.kl_div(F.log_softmax(student(x) / 2, dim=1), wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        epoch_losses.append(loss.detach())
    print(epoch, torch.stack(epoch_losses).mean().item())
