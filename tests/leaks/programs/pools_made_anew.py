# LEAK: a MemPool for each epoch's buffer, kept when the buffer is gone: nobody else can have what is free in it
# HELD: list 'pools'
# VERDICT: leak, private_pool
# REMEDY: use one again
import torch
from torch import nn

pools = []
model = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    pools.append(torch.cuda.MemPool(no_split=True))  # leak
    with torch.cuda.use_mem_pool(pools[-1]):
        buffer = torch.zeros(8 << 20, device="cuda")
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.rand(64, 512, device="cuda") * buffer[0]).mean().backward()
        optimizer.step()
    del buffer
