# LEAK: a capture is tried again in each epoch, and fails each time; PyTorch keeps for ever what it has taken
# HOLDER: not known
# VERDICT: leak, failed_capture
# REMEDY: captures of CUDA graphs fail
import frugal_alloc
import torch
from torch import nn

model = nn.Linear(1024, 4096).cuda()
x = torch.rand(2048, 1024, device="cuda")
with torch.no_grad():
    for epoch in range(12):
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):  # leak
                y = model(x)
                torch.cuda.synchronize()  # not allowed here
        except RuntimeError:
            y = model(x)
        frugal_alloc.epoch_end()
