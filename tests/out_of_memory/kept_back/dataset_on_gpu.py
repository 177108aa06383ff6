# ERROR: The whole dataset, with the part for the test that comes last, is on the GPU before training begins.
# ROOM: 750
# RUNS: training
# VERDICT: too_big
# HOLDER: train_x, test_x
# REQUEST: 42
# LARGEST: 0
# CHANGE host: train_x = torch.rand(5200, 4, 84, 84).to(device) -> train_x = torch.rand(5200, 4, 84, 84)
# CHANGE host: x = train_x[chosen] -> x = train_x[chosen].to(device)
# CHANGE move_later: test_x = torch.rand(1500, 4, 84, 84).to(device) -> test_x = torch.rand(1500, 4, 84, 84)
# CHANGE move_later: with torch.no_grad(): -> del train_x, x\nwith torch.no_grad():
# CHANGE move_later: in test_x.split(BATCH) -> in test_x.to(device).split(BATCH)
# CHANGE batch: BATCH = 512 -> BATCH = {n}
# BEST: host
# WORKS: host, move_later
import torch
from torch import nn

device = torch.device("cuda")
BATCH = 512

train_x = torch.rand(5200, 4, 84, 84).to(device)
train_y = torch.randint(0, 18, (5200,)).to(device)
test_x = torch.rand(1500, 4, 84, 84).to(device)

net = nn.Sequential(
    nn.Conv2d(4, 32, 8, 4),
    nn.ReLU(),
    nn.Conv2d(32, 64, 4, 2),
    nn.ReLU(),
    nn.Conv2d(64, 64, 3),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(64 * 7 * 7, 512),
    nn.ReLU(),
    nn.Linear(512, 18),
).to(device)
optimizer = torch.optim.RMSprop(net.parameters(), lr=2.5e-4)
for _ in range(3):
    order = torch.randperm(5200)
    for chosen in order.split(BATCH)[:4]:
        x = train_x[chosen]
        y = train_y[chosen.to(device)]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

with torch.no_grad():
    actions = torch.cat([net(x).argmax(1).cpu() for x in test_x.split(BATCH)])
print(actions.bincount(minlength=18))
