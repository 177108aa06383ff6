# ERROR: The retry with a quarter of the batch runs inside the except block, where the failed attempt is still kept.
# ROOM: 610
# RUNS: training
# VERDICT: leak
# HOLDER: the exception that is being handled
# REQUEST: 29
# LARGEST: 30731
# CHANGE after_except:     try: ->     failed = False\n    try:
# CHANGE after_except:         torch.cuda.empty_cache() ->         failed = True
# CHANGE after_except:         train_on(model, optimizer, BATCH_SIZE // 2) ->     if failed:
# CHANGE after_except:     if failed: ->     if failed:\n        train_on(model, optimizer, BATCH_SIZE // 2)
# CHANGE batch: BATCH_SIZE = 60000 -> BATCH_SIZE = {n}
# BEST: after_except
# WORKS: after_except, batch
import torch
from torch import nn

BATCH_SIZE = 60000


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(300, 1500)
        self.second = nn.Linear(1500, 700)
        self.score = nn.Linear(700, 1)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        hidden = torch.relu(self.second(hidden))
        return self.score(hidden)


def train_on(model, optimizer, rows):
    x = torch.randn(rows, 300, device="cuda")
    scores = model(x)
    loss = scores.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


model = Ranker().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(2):
    try:
        train_on(model, optimizer, BATCH_SIZE)
    except torch.cuda.OutOfMemoryError:
        print("out of memory, once more with a smaller batch")
        torch.cuda.empty_cache()
        train_on(model, optimizer, BATCH_SIZE // 2)
