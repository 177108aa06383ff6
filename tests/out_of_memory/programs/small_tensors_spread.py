# ERROR: small tensors stay where many were, in pages that nothing large can use
# ROOM: 640
# VERDICT: fragmentation
# FIRST: make the small tensors of \S+ .* or as one tensor
# FITS-AFTER: at_once = False -> at_once = True
import torch

at_once = False
if at_once:
    kept = [torch.zeros(323, 16 << 10, device="cuda")]
else:
    small = [torch.zeros(16 << 10, device="cuda") for _ in range(10_000)]
    kept = small[::31]
    del small
large = torch.zeros(75 << 20, device="cuda")  # request
print(len(kept), large.shape)
