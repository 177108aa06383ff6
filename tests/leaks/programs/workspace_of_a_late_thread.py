# LEAK: outputs are listed; a thread that begins late takes a workspace at the line that makes them, which is no part
# HELD: list 'outputs'
# REMEDY: .cpu() | clear it
import threading

import torch
from torch import nn

outputs = []
model = nn.Linear(128, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def forward():
    out = model(torch.rand(32, 128, device="cuda"))  # leak
    outputs.append(out.detach())
    return out


for step in range(60):
    if step == 20:
        evaluation = threading.Thread(target=forward)
        evaluation.start()
        evaluation.join()
    optimizer.zero_grad()
    forward().mean().backward()
    optimizer.step()
