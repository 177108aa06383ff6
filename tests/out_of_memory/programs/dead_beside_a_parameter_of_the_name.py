# ERROR: a script's model stays, which functions that have a variable of the name do not read
# ROOM: 250
# FIRST: del model before line \d+ of \S+ frees 160\.00 MiB
# FITS-AFTER: as told
import torch
from torch import nn


def load():
    model = nn.Sequential(*[nn.Linear(1024, 1024, bias=False) for _ in range(40)])
    return model.to("cuda").eval()


def run(model, inputs):
    with torch.no_grad():
        return [model(one).cpu() for one in inputs]


class Settings:
    model = "base"
    name = model


model = load()
first = [run(model, [torch.zeros(1, 1024, device="cuda")]) for _ in range(2)]
other = load()
print(first, [run(other, [torch.zeros(1, 1024, device="cuda")]) for model in range(2)], Settings.name)
