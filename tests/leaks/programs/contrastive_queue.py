# LEAK: the queue of negatives is concatenated and never cut
# HELD: tensor 'negatives'
# VERDICT: growing, growing_concatenation
# REMEDY: bound its size | on the host
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

encoder = nn.Linear(128, 256).cuda()
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.03)
loader = DataLoader(TensorDataset(torch.rand(256, 128)), batch_size=64)
negatives = torch.zeros(1, 256, device="cuda")
for epoch in range(10):
    for (x,) in loader:
        keys = encoder(x.cuda())
        logits = keys @ negatives.T
        loss = logits.logsumexp(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        negatives = torch.cat([negatives, keys.detach()])  # leak
