# ERROR: PyTorch's memory fraction leaves most of the GPU unused
# ROOM: 16384
# VERDICT: too_big
# FIRST: the limit \(.*set_per_process_memory_fraction.*\) leaves .* unused: raise it by (\d+) MiB
# FITS-AFTER: limit = 600 -> limit = 600 + \1
import torch
from project.models import WIDTH, layers, optimizer_of

limit = 600
torch.cuda.set_per_process_memory_fraction((limit << 20) / torch.cuda.mem_get_info()[1])

model = layers().cuda()
optimizer = optimizer_of(model)
for _ in range(2):
    loss = model(torch.zeros(1 << 14, WIDTH, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
