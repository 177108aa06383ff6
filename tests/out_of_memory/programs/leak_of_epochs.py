# ERROR: the request would fit without what earlier epochs have left
# ROOM: 300
# VERDICT: leak
# SAYS: Leak: what \S*leak_of_epochs\.py:{made} makes stays: .* 20\.00 MiB more with each epoch
# FIRST: \S*leak_of_epochs\.py:{made}: .*
# FITS-AFTER: kept.append( -> print(
import frugal_alloc
import torch

kept = []
for _ in range(10):
    kept.append(torch.empty(20 << 20, dtype=torch.uint8, device="cuda"))  # made
    frugal_alloc.epoch_end()
torch.empty(150 << 20, dtype=torch.uint8, device="cuda")  # request
