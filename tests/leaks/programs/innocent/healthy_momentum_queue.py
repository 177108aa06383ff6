# HEALTHY: MoCo's queue of negatives, cut to its last 512
# LIKE: growing_concatenation
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

encoder = nn.Linear(128, 128).cuda()
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.03)
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=64)
negatives = torch.zeros(1, 128, device="cuda")
for epoch in range(14):
    for (x,) in loader:
        keys = encoder(x.cuda())
        loss = (keys @ negatives.T).logsumexp(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        negatives = torch.cat([negatives, keys.detach()])[-512:]
