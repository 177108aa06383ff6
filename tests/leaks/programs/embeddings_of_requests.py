# LEAK: a function that answers requests keeps the embedding of each in a dictionary of its own until it returns
# HOLDER: answered
# REMEDY: bound it | .cpu()
import torch
from torch import nn


@torch.inference_mode()
def serve(model, requests):
    answered = {}
    for number in range(requests):
        inputs = torch.rand(16, 256).cuda()
        answered[number] = model(inputs)  # leak
    return len(answered)


print(serve(nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 2048)).cuda().eval(), 120))
