# LEAK: Tensor.register_hook keeps the gradients of a layer's output
# HOLDER: gradients
# REMEDY: .cpu() | clear it
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

encoder, decoder = nn.Linear(64, 512).cuda(), nn.Linear(512, 64).cuda()
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
data = DataLoader(TensorDataset(torch.rand(128, 64)), batch_size=32)
gradients = []
for epoch in range(10):
    for (x,) in data:
        x = x.cuda()
        code = encoder(x)
        code.register_hook(lambda grad: gradients.append(grad))
        loss = (decoder(code) - x).square().mean()  # leak
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
