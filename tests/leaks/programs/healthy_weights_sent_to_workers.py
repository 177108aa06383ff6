# HEALTHY: weights go to other processes each epoch, which let go of them, and through a pool without a graph
# LIKE: shared | private_pool
import torch
from torch import nn

model = nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pool = torch.cuda.MemPool(no_split=True)
for epoch in range(12):
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.rand(64, 512, device="cuda")).mean().backward()
        optimizer.step()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    gpu, *_, counter, offset, _, _ = weights.untyped_storage()._share_cuda_()
    # As the process that received them does.
    torch.UntypedStorage._release_ipc_counter(counter, offset, device=gpu)
    with torch.cuda.use_mem_pool(pool):
        staged = torch.zeros(8 << 20, device="cuda")
