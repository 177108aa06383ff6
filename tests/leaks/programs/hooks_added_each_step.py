# LEAK: each step registers more hooks on a module and on a parameter, whose closures keep the batch
# VERDICT: leak, hooks_added
# REMEDY: remove
import torch
from torch import nn


def make_hook(batch):
    def see(module, args, output):
        shapes.add(tuple(batch.shape))

    return see


def scale_by(batch):
    more = batch + 1  # leak: backward hooks of Parameter 'weight' through tensor 'more' in the closure of scale()

    def scale(gradient):
        return gradient + 0 * more.sum()

    weight.register_hook(scale)


shapes, rows = set(), torch.rand(64, 256)
weight = nn.Parameter(torch.ones(256, 64, device="cuda"))
model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD([weight, *model.parameters()], lr=0.01)
for step in range(64):
    inputs = rows.cuda()  # leak: forward hooks of Linear 'model' through tensor 'batch' in the closure of see()
    model.register_forward_hook(make_hook(inputs))
    optimizer.zero_grad()
    model(inputs @ weight).mean().backward()
    optimizer.step()
    scale_by(inputs)
