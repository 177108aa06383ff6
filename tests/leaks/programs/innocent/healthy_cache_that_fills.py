# HEALTHY: features of a frozen backbone, computed once for each sample in the first epoch
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

backbone = nn.Linear(256, 2048).cuda().eval()
head = nn.Linear(2048, 10).cuda()
optimizer = torch.optim.Adam(head.parameters())
loader = DataLoader(TensorDataset(torch.arange(64), torch.rand(64, 256)), batch_size=8)
features = {}
for epoch in range(14):
    for indices, x in loader:
        key = int(indices[0])
        if key not in features:
            with torch.no_grad():
                features[key] = backbone(x.cuda())
        loss = head(features[key]).logsumexp(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
