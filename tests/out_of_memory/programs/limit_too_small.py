# ERROR: memory_limit leaves most of the GPU unused
# ROOM: 16384
# FIRST: the limit \(.*memory_limit.*\) leaves .* unused: raise it by (\d+) MiB
# FITS-AFTER: limit = 600 -> limit = 600 + \1
import frugal_alloc
import torch
from project.models import WORDS, Language

limit = 600
frugal_alloc.enable(memory_limit=f"{limit}MiB")
words = torch.zeros(8, 1024, dtype=torch.long, device="cuda")
logits = Language().cuda()(words)
torch.nn.functional.cross_entropy(logits.view(-1, WORDS), words.view(-1)).backward()
