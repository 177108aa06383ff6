# ERROR: what runs in an `except` block has no room, and the exception keeps next to nothing
# ROOM: 100
# UNSAID: `except`|has failed|is handled
import torch


def look_up(name):
    found = torch.zeros(4, device="cuda")
    raise KeyError(name, found.numel())


rows = torch.zeros(10 << 18, device="cuda")
try:
    look_up("a")
except KeyError:
    rows = rows, torch.zeros(200 << 18, device="cuda")  # request
