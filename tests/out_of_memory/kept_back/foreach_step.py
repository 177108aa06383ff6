# ERROR: The step of Adam works on all weights at once (foreach): its intermediates are as large as the weights.
# ROOM: 1150
# RUNS: training
# VERDICT: too_big
# REQUEST: 36
# LARGEST: 0
# CHANGE foreach: betas=(0.9, 0.95)) -> betas=(0.9, 0.95), foreach=False)
# CHANGE optimizer: optim.Adam(net.parameters(), lr=3e-4, betas=(0.9, 0.95)) -> optim.SGD(net.parameters(), lr=0.01)
# CHANGE batch: batch = 256 -> batch = {n}
# BEST: foreach
# WORKS: foreach, optimizer
import torch
from torch import nn

batch = 256


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(1152, 3072)
        self.down = nn.Linear(3072, 1152)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(x)))


net = nn.Sequential(*[Expert() for _ in range(9)], nn.Linear(1152, 6)).cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-4, betas=(0.9, 0.95))
for _ in range(3):
    observations = torch.randn(batch, 1152).cuda()
    returns = torch.randn(batch, 6).cuda()
    optimizer.zero_grad()
    loss = nn.functional.huber_loss(net(observations), returns)
    loss.backward()
    optimizer.step()
