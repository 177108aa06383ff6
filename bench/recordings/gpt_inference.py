"""GPT-2 medium rates texts without gradients: batches of any length, whose results stay until a report is due."""

from __future__ import annotations

import random

import torch

from ..training.workloads import Gpt2, Step

STEPS = 48

_REPORT_EVERY = 12
_TOKENS_OF_A_BATCH = 8192


def build(shapes: random.Random) -> Step:
    model = Gpt2(layers=24, width=1024, heads=16).cuda().bfloat16().eval()
    words = model.words.num_embeddings
    rated: list[torch.Tensor] = []

    @torch.inference_mode()
    def step() -> None:
        length = shapes.randint(32, 1024)
        batch = max(1, _TOKENS_OF_A_BATCH // length)
        tokens = torch.randint(words, (batch, length), device="cuda")
        chances = model(tokens)[:, :-1].log_softmax(-1)
        rated.append(chances.gather(-1, tokens[:, 1:, None]).squeeze(-1))
        if len(rated) == _REPORT_EVERY:
            torch.cat([one.flatten() for one in rated]).float().mean().item()
            rated.clear()

    return step
