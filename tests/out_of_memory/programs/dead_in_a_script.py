# ERROR: a script's variable stays that only a function has read, which is done
# ROOM: 650
# FIRST: del raw before line \d+ of \S+ frees 100\.00 MiB
# FITS-AFTER: as told
import torch


def piece():
    return torch.zeros(25 << 20, device="cuda")  # request


def prepare():
    return raw.mean()


model = torch.nn.Linear(2, 2).eval()
raw = piece()
mean = prepare()
rest = [piece() for _ in range(6)]
print(mean.shape)
