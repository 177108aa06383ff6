# MEANT: a new embedding joins each epoch and is used beside all earlier ones, which go on being trained
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

embeddings = [torch.rand(256, 256, device="cuda", requires_grad=True)]
optimizer = torch.optim.Adam(embeddings, lr=0.01)
loader = DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32)
for epoch in range(12):
    for (x,) in loader:
        x = x.cuda()
        loss = sum((x @ embedding).square().mean() for embedding in embeddings)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    embeddings.append(nn.Parameter(torch.rand(256, 256, device="cuda")))
    optimizer.add_param_group({"params": [embeddings[-1]]})
