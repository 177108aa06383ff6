"""Generates 1,024 tokens with a GPT of 6 billion parameters and a cache of keys and values."""

from __future__ import annotations

import figures
import torch
from gpt import Gpt, Shape

NEW = 1024
PROMPT = (15496, 11, 314, 716)

if __name__ == "__main__":
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Gpt(Shape(width=4096, layers=12, heads=16, context=NEW + len(PROMPT), bias=False, gated=32768))
    with torch.no_grad():
        tokens = torch.tensor([PROMPT], device="cuda")
        logits = model(tokens, 0)
        for position in range(len(PROMPT), len(PROMPT) + NEW):
            next_token = logits[:, -1].argmax(dim=-1, keepdim=True)
            logits = model(next_token, position)
    figures.report()
