# LEAK: a buffer is registered under a new name at each step
# HOLDER: model | Tracker | seen_
# VERDICT: leak, unbounded_cache
# REMEDY: bound it | let it go | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(128, 256)
        self.calls = 0

    def forward(self, x):
        out = self.layer(x)  # leak
        self.register_buffer(f"seen_{self.calls}", out.detach())
        self.calls += 1
        return out


model = Tracker().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32):
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
