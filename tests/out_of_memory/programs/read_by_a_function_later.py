# ERROR: a script's variable that a function reads is not called needless, whatever has a variable of the name
# ROOM: 250
# UNSAID: del raw|raw = None|raw = .* = None
import torch


def mean(of):
    return of.mean() + raw.mean()


def shift(raw):
    return [raw.shape for raw in (raw, raw)]


raw = torch.zeros(100 << 18, device="cuda")
shift(raw)
model = torch.zeros(200 << 18, device="cuda")  # request
print(mean(model))
