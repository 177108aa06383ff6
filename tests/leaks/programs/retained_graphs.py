# LEAK: retain_graph=True keeps each step's graph alive in the losses that are listed
# HELD: list 'losses'
# VERDICT: leak, loss_graph
# REMEDY: .item() | .detach()
import torch
from torch import nn

model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for step in range(120):
    batch = torch.rand(32, 256, device="cuda")  # leak
    optimizer.zero_grad()
    loss = model(batch).pow(2).mean()  # leak
    loss.backward(retain_graph=True)
    optimizer.step()
    losses.append(loss)
