# LEAK: buffers of a pool that PyTorch's own allocator serves, without a graph
# HOLDER: not known
# LINE: not known
# VERDICT: growing, private_pool
# REMEDY: use_mem_pool
import torch
from torch import nn

buffers = []
pool = torch.cuda.MemPool(no_split=True)
model = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.rand(64, 512, device="cuda")).mean().backward()
        optimizer.step()
    with torch.cuda.use_mem_pool(pool):
        buffers.append(torch.zeros(8 << 20, device="cuda"))
