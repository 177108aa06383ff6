# ERROR: what is kept is not the reason where far more is missing
# ROOM: 2048
# VERDICT: too_big
# UNSAID: `kept` keeps them
import torch

kept = []
for _ in range(9):
    kept.append(torch.empty(200 << 20, dtype=torch.uint8, device="cuda"))
torch.empty(1 << 44, dtype=torch.uint8, device="cuda")  # request
