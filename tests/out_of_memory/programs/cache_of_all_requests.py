# ERROR: each request adds to one cache of keys and values
# ROOM: 130, 150
# VERDICT: too_big
# SAYS: Too big: .* have come in the later half of \d+ epochs, too few to tell a leak from what grows on purpose\.
# FIRST: bound what grows: \S*cache_of_all_requests\.py:{request} made .* copied for it \(copy\.deepcopy\)
# FITS-AFTER: answer(prompt) -> answer(copy.deepcopy(prompt))
# UNSAID: Fragmentation: |small tensors
import copy  # noqa: F401  (what is advised needs it)
import random

import torch
from generating import Cache, Layer

layers = [Layer(number).cuda() for number in range(4)]
prompt = Cache(len(layers))
lengths = random.Random(3)


@torch.inference_mode()
def answer(past):
    words = torch.zeros(1, lengths.randint(1, 400), 1024, device="cuda")
    for layer in layers:
        words = layer(words, past)  # request


for _ in range(60):
    answer(prompt)
