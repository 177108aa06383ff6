# ERROR: what is kept is the reason where it is much beside what is missing
# ROOM: 2048
# VERDICT: too_big
# SAYS: `kept` keeps them
import torch

kept = []
for _ in range(9):
    kept.append(torch.empty(200 << 20, dtype=torch.uint8, device="cuda"))
torch.empty(300 << 20, dtype=torch.uint8, device="cuda")  # request
