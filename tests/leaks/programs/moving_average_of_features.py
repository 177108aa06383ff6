# LEAK: an exponential moving average of features drags its graph along
# HOLDER: average
# REMEDY: detach
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

encoder = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
optimizer = torch.optim.Adam(encoder.parameters())
loader = DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32)
average = torch.zeros(256, device="cuda")
for epoch in range(12):
    for (x,) in loader:
        x = x.cuda()  # leak
        loss = encoder(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average = 0.9 * average + 0.1 * encoder(x).mean(dim=0)  # leak
