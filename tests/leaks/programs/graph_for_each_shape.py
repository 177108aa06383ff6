# LEAK: a CUDA graph is captured for each number of rows, which is never the same twice
# HELD: dict 'graphs'
# VERDICT: leak, cuda_graph_per_shape
# REMEDY: a few padded shapes
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

graphs = {}
model = nn.Linear(128, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.rand(64, 128)), batch_size=16)
for epoch in range(10):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x.cuda()).square().mean().backward()
        optimizer.step()
    rows = 17 + epoch
    if rows not in graphs:
        graphs[rows] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[rows]):  # leak
            torch.zeros(rows, 1 << 16, device="cuda").sum()
