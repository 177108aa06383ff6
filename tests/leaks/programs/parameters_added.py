# LEAK: each epoch adds a fresh prompt to the optimizer and forgets none
# HELD: list 'param_groups' of SGD 'optimizer'
# VERDICT: leak, model_rebuilt
# REMEDY: let go | remove
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

backbone = nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(backbone.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.rand(96, 256)), batch_size=32)
for epoch in range(14):
    prompt = nn.Parameter(torch.zeros(256, 256, device="cuda"))  # leak
    optimizer.add_param_group({"params": [prompt]})
    for (x,) in loader:
        loss = (backbone(x.cuda()) @ prompt).square().mean()  # leak
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
