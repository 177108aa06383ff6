# LEAK: weights that are shared with a process which never opens them stay, though no variable has them
# VERDICT: leak, shared
# REMEDY: shared with another process
import torch
from torch import nn
from torch.multiprocessing.reductions import reduce_tensor

model = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.rand(64, 512, device="cuda")).mean().backward()
        optimizer.step()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    handle = reduce_tensor(weights)  # leak: not known
    del weights, handle
    torch.cuda.ipc_collect()
