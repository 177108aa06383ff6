# LEAK: the key-value cache of each conversation stays in a dictionary of the user's
# HELD: dict 'caches'
# THROUGH: list 'layers' of DynamicCache
# REMEDY: bound it | clear it
import torch
from textgen import DynamicCache
from torch import nn

caches = {}  # holder
projection = nn.Linear(256, 512).cuda().eval()


@torch.inference_mode()
def answer(conversation, tokens):
    cache = caches.setdefault(conversation, DynamicCache())
    for token in tokens:
        keys, values = projection(token).chunk(2, dim=-1)
        cache.update(keys, values, 0)  # leak
    return cache.length()


for conversation in range(60):
    prompt = torch.rand(4, 32, 256, device="cuda")
    answer(f"user-{conversation}", prompt)
