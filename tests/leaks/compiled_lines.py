"""A compiled model whose outputs, activations and gradients are kept: prints the lines that are told of them."""

import json

import frugal_alloc
import torch
from frugal_alloc._program import code_lines
from torch import nn

frugal_alloc.enable()
kept = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(128, 256)
        self.second = nn.Linear(256, 512)

    def forward(self, inputs):
        hidden = torch.relu(self.first(inputs))  # line: hidden
        return self.second(hidden) * 2  # line: output


def told(leave):
    """The lines that are told of what a call leaves behind."""
    with frugal_alloc.measure() as region:
        kept.append(leave())
    return sorted(region.kept)


def evaluate():
    with torch.no_grad():
        return compiled(inputs)


def backward():
    compiled(inputs).square().mean().backward()
    return [parameter.grad for parameter in net.parameters()]


inputs = torch.rand(64, 128, device="cuda")
net = Net().cuda()
compiled = torch.compile(net)
built_in = torch.compile(nn.Sequential(nn.Linear(128, 64), nn.Tanh()).cuda())
results = {}
# Kernels are compiled, and tried.
evaluate(), compiled(inputs).sum().backward()
net.zero_grad()
built_in(inputs)
results["evaluation"] = told(evaluate)
results["training"] = told(lambda: compiled(inputs))
results["backward"] = told(backward)
results["library's"] = told(lambda: built_in(inputs))  # line: call
for _ in range(12):
    kept.append(evaluate())
    frugal_alloc.epoch_end()
(verdict,) = frugal_alloc.report().document["verdicts"]
results["verdict"] = [code_lines.written(verdict["file"], verdict["line"]), verdict["code"]]
print("RESULTS" + json.dumps(results))
