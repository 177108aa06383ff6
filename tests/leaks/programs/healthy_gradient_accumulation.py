# HEALTHY: gradients of four batches are accumulated before each step
# EPOCHS: data_loader, 11 ended, 48 steps
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(128, 512), nn.SiLU(), nn.Linear(512, 128)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=16)
for epoch in range(12):
    for index, (x,) in enumerate(loader):
        loss = model(x.cuda()).square().mean() / 4
        loss.backward()
        if index % 4 == 3:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
