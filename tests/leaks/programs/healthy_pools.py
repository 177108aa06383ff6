# HEALTHY: graphs captured anew in the place of those before, a capture that fails once, a pool used again and again
# LIKE: cuda_graph_per_shape | failed_capture | private_pool
import frugal_alloc
import torch
from torch import nn

pool = torch.cuda.MemPool(no_split=True)
model = nn.Linear(1024, 4096).cuda()
x = torch.rand(2048, 1024, device="cuda")
graphs = {}
can_capture = True
with torch.no_grad():
    for epoch in range(14):
        with torch.cuda.use_mem_pool(pool):
            buffer = torch.zeros(8 << 20, device="cuda")
        if can_capture:
            try:
                with torch.cuda.graph(torch.cuda.CUDAGraph()):
                    y = model(x)
                    torch.cuda.synchronize()  # not allowed here
            except RuntimeError:
                can_capture = False
                y = None
        for name in ("prefill", "decode"):
            graphs[name] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[name]):
                y = model(x)
            graphs[name].replay()
        del buffer
        frugal_alloc.epoch_end()
