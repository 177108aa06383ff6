"""A decoder writes texts word by word: caches grow by being copied into longer ones, for two batches in turns."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import nn

from ..training.workloads import Step

STEPS = 360

_WORDS, _WIDTH, _HEADS, _LAYERS = 32000, 2048, 16, 6
_AT_A_TIME = 2


class _Layer(nn.Module):
    """One layer, which returns its cache of keys and values beside what it makes of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(_WIDTH), nn.RMSNorm(_WIDTH)])
        self.attend = nn.Linear(_WIDTH, 3 * _WIDTH, bias=False)
        self.project = nn.Linear(_WIDTH, _WIDTH, bias=False)
        self.gate = nn.Linear(_WIDTH, 4 * _WIDTH, bias=False)
        self.up = nn.Linear(_WIDTH, 4 * _WIDTH, bias=False)
        self.down = nn.Linear(4 * _WIDTH, _WIDTH, bias=False)

    def forward(self, hidden: torch.Tensor, cache: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        batch, length, _ = hidden.shape
        parts = self.attend(self.norms[0](hidden)).view(batch, length, 3, _HEADS, _WIDTH // _HEADS)
        query, *rest = parts.permute(2, 0, 3, 1, 4)
        known = torch.stack(rest)
        cache = known if cache is None else torch.cat([cache, known], dim=3)
        mixed = F.scaled_dot_product_attention(query, cache[0], cache[1], is_causal=length > 1)
        hidden = hidden + self.project(mixed.transpose(1, 2).reshape(batch, length, _WIDTH))
        normed = self.norms[1](hidden)
        return hidden + self.down(F.silu(self.gate(normed)) * self.up(normed)), cache


class _Texts:
    """A batch of texts in the making."""

    def __init__(self, shapes: random.Random) -> None:
        self.tokens = torch.randint(_WORDS, (shapes.randint(2, 16), shapes.randint(64, 1536)), device="cuda")
        self.caches: list[torch.Tensor | None] = [None] * _LAYERS
        self.left = shapes.randint(8, 48)


def build(shapes: random.Random) -> Step:
    embedding = nn.Embedding(_WORDS, _WIDTH).cuda().bfloat16()
    layers = nn.ModuleList(_Layer() for _ in range(_LAYERS)).cuda().bfloat16()
    running: list[_Texts] = []

    @torch.inference_mode()
    def step() -> None:
        if len(running) < _AT_A_TIME:
            running.append(_Texts(shapes))
        texts = running.pop(0)
        hidden = embedding(texts.tokens)
        for number, layer in enumerate(layers):
            hidden, texts.caches[number] = layer(hidden, texts.caches[number])
        texts.tokens = F.linear(hidden[:, -1:], embedding.weight).argmax(-1)
        texts.left -= 1
        if texts.left:
            running.append(texts)

    return step
