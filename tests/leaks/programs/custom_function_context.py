# LEAK: an autograd.Function stores a tensor on ctx instead of saving it, and a list keeps its output
# HELD: list 'outputs'
# THROUGH: ctx.sigmoid of Swish
# VERDICT: leak, outputs_kept
# REMEDY: .cpu()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.sigmoid = torch.sigmoid(x)  # leak
        ctx.x = x
        return x * ctx.sigmoid  # leak

    @staticmethod
    def backward(ctx, grad):
        return grad * (ctx.sigmoid + ctx.x * ctx.sigmoid * (1 - ctx.sigmoid))


layer = nn.Linear(128, 256).cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
outputs = []
for epoch in range(10):
    for (x,) in DataLoader(TensorDataset(torch.rand(128, 128)), batch_size=32):
        hidden = layer(x.cuda())  # leak
        out = Swish.apply(hidden)
        optimizer.zero_grad()
        out.mean().backward()
        optimizer.step()
        outputs.append(out)
