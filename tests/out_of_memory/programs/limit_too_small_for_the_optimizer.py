# ERROR: memory_limit leaves no room for the optimizer's step
# ROOM: 16384
# FIRST: the limit \(.*memory_limit.*\) leaves .* unused: raise it by (\d+) MiB
# FITS-AFTER: limit = 600 -> limit = 600 + \1
import frugal_alloc
import torch
from project.models import layers, train

limit = 600
frugal_alloc.enable(memory_limit=f"{limit}MiB")
train(layers(6, 1024), torch.zeros(1, 1024), (4, 4, 4))
