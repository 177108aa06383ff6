"""BERT base out of torch.nn's encoder, trained in single precision to fill in the masked words of padded batches."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import nn

from ..training.workloads import Step

STEPS = 60

_WORDS, _WIDTH, _LAYERS, _HEADS, _LONGEST = 30522, 768, 12, 12, 512
_BATCH = 16
_MASKED = 0.15


class _Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(_WORDS, _WIDTH)
        self.places = nn.Embedding(_LONGEST, _WIDTH)
        self.norm = nn.LayerNorm(_WIDTH)
        layer = nn.TransformerEncoderLayer(_WIDTH, _HEADS, 4 * _WIDTH, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, _LAYERS)
        self.head = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), nn.GELU(), nn.LayerNorm(_WIDTH))

    def forward(self, tokens: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = F.dropout(self.norm(self.words(tokens) + self.places(places)), 0.1)
        hidden = self.head(self.encoder(hidden, src_key_padding_mask=padded))
        return F.linear(hidden, self.words.weight)


def build(shapes: random.Random) -> Step:
    model = _Bert().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        lengths = [shapes.randint(24, _LONGEST) for _ in range(_BATCH)]
        places = torch.arange(max(lengths), device="cuda")
        padded = places >= torch.tensor(lengths).cuda()[:, None]
        tokens = torch.randint(_WORDS, padded.shape, device="cuda")
        masked = (torch.rand(padded.shape, device="cuda") < _MASKED) & ~padded
        logits = model(tokens.masked_fill(masked, 0), padded)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.masked_fill(~masked, -100).flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step
