# ERROR: The forward pass of a table's network: each layer's activations for 65536 rows.
# ROOM: 700
# RUNS: training
# VERDICT: too_big
# REQUEST: 36
# LARGEST: 35584
# CHANGE batch: BATCH = 65536 -> BATCH = {n}
# CHANGE half: model.cuda() -> model.cuda()\ntorch.set_autocast_enabled("cuda", True)
# CHANGE checkpoint: self.body(rows) -> torch.utils.checkpoint.checkpoint(self.body, rows, use_reentrant=False)
# BEST: batch
# WORKS: batch
import torch
from torch import nn

FEATURES = 420
BATCH = 65536


class Churn(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(FEATURES, 1024),
            nn.BatchNorm1d(1024),
            nn.ReLU(),
            nn.Linear(1024, 512),
            nn.BatchNorm1d(512),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(512, 96),
            nn.ReLU(),
        )
        self.head = nn.Linear(96, 1)

    def forward(self, rows):
        return self.head(self.body(rows)).squeeze(1)


model = Churn()
model.cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    rows = torch.randn(BATCH, FEATURES).cuda()
    churned = torch.randint(0, 2, (BATCH,)).float().cuda()
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy_with_logits(model(rows), churned)
    loss.backward()
    optimizer.step()
