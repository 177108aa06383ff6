# ERROR: Python code in a backward pass has its own line
# ROOM: 300
# SAYS: return gradient \* torch\.ones\(
import torch


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        return values * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * torch.ones(1 << 30, device="cuda")[: len(gradient)]  # request


values = torch.zeros(100, device="cuda", requires_grad=True)
Doubled.apply(values).sum().backward()
