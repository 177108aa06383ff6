# ERROR: what earlier epochs have left was let go since, so it is no cause
# ROOM: 300
# VERDICT: too_big
# SAYS: Too big:
# UNSAID: Leak
import frugal_alloc
import torch

kept = []
for _ in range(10):
    kept.append(torch.empty(20 << 20, dtype=torch.uint8, device="cuda"))
    frugal_alloc.epoch_end()
kept.clear()
torch.empty(450 << 20, dtype=torch.uint8, device="cuda")  # request
