# ERROR: A script trains one model, then another: the first one and its optimizer are still in globals.
# ROOM: 950
# RUNS: training
# VERDICT: leak
# HOLDER: wide, wide_optimizer
# REQUEST: 26
# LARGEST: 0
# CHANGE delete: as told
# CHANGE batch: BATCH = 900 -> BATCH = {n}
# CHANGE host: print("wide", -> wide.cpu()\nwide_optimizer.state.clear()\nwide.zero_grad()\nprint("wide",
# BEST: delete
# WORKS: delete, host
import torch
from torch import nn

BATCH = 900


def run(model, optimizer, steps):
    for _ in range(steps):
        x = torch.randn(BATCH, 784, device="cuda")
        y = torch.randint(0, 47, (BATCH,), device="cuda")
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


wide = nn.Sequential(nn.Linear(784, 7200), nn.ReLU(), nn.Linear(7200, 3600), nn.ReLU(), nn.Linear(3600, 47)).cuda()
wide_optimizer = torch.optim.Adam(wide.parameters())
wide_loss = run(wide, wide_optimizer, 3)
print("wide", wide_loss)

deep = nn.Sequential(
    nn.Linear(784, 3000),
    nn.ReLU(),
    nn.Linear(3000, 3000),
    nn.ReLU(),
    nn.Linear(3000, 3000),
    nn.ReLU(),
    nn.Linear(3000, 3000),
    nn.ReLU(),
    nn.Linear(3000, 47),
).cuda()
deep_optimizer = torch.optim.Adam(deep.parameters())
deep_loss = run(deep, deep_optimizer, 3)
print("deep", deep_loss, "better" if deep_loss < wide_loss else "worse")
