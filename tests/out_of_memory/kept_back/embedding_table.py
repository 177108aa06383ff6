# ERROR: Embeddings of 2.6 million users and items: the table's gradient and Adam's states are as large as the table.
# ROOM: 2010
# RUNS: training
# VERDICT: too_big
# REQUEST: 42
# LARGEST: 0
# CHANGE optimizer: torch.optim.Adam(model.parameters(), lr=1e-3) -> torch.optim.SGD(model.parameters(), lr=0.1)
# CHANGE foreach: lr=1e-3) -> lr=1e-3, foreach=False)
# CHANGE batch: BATCH = 16384 -> BATCH = {n}
# BEST: optimizer
# WORKS: optimizer
import torch
from torch import nn

BATCH = 16384
USERS, ITEMS, SIZE = 2_100_000, 500_000, 64


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(USERS, SIZE)
        self.items = nn.Embedding(ITEMS, SIZE)
        self.score = nn.Sequential(nn.Linear(2 * SIZE, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, user, item):
        pair = torch.cat([self.users(user), self.items(item)], dim=1)
        return self.score(pair).squeeze(1)


with torch.device("cuda"):
    model = Recommender()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()
for _ in range(3):
    user = torch.randint(0, USERS, (BATCH,)).cuda()
    item = torch.randint(0, ITEMS, (BATCH,)).cuda()
    clicked = torch.randint(0, 2, (BATCH,)).float().cuda()
    loss = criterion(model(user, item), clicked)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
