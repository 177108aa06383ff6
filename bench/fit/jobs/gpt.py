"""A GPT without training, as a textbook builds it: three projections, attention written out, untied output layer."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

WORDS = 50257
NEW, PROMPT = 1024, (15496, 11, 314, 716)


def generate() -> None:
    """1,024 tokens, by 6 billion parameters and a cache of keys and values."""
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Gpt(Shape(width=4096, layers=12, heads=16, context=NEW + len(PROMPT), bias=False, gated=32768))
    with torch.no_grad():
        tokens = torch.tensor([PROMPT], device="cuda")
        logits = model(tokens, 0)
        for position in range(len(PROMPT), len(PROMPT) + NEW):
            next_token = logits[:, -1].argmax(dim=-1, keepdim=True)
            logits = model(next_token, position)


def load(how: str) -> None:
    """GPT-2 XL's weights: "once", "twice" (beside a state dictionary that is there too), or "one-by-one"."""
    with torch.device("cuda"):
        model = Gpt(Shape(width=1600, layers=48, heads=25, context=1024, bias=True))
    if how == "twice":
        state = {name: torch.empty_like(tensor) for name, tensor in model.state_dict().items()}
        model.load_state_dict(state)
    elif how == "one-by-one":
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.empty(parameter.shape).to("cuda"))


@dataclasses.dataclass(frozen=True)
class Shape:
    width: int
    layers: int
    heads: int
    context: int
    bias: bool
    gated: int = 0  # units of a gated feed-forward part; 0: four times the width, with GELU


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(shape.width, shape.width, bias=shape.bias) for _ in range(3))
        self.out = nn.Linear(shape.width, shape.width)
        self.heads = shape.heads
        self.keys: torch.Tensor | None = None
        self.values: torch.Tensor | None = None
        if not shape.gated:
            mask = torch.triu(torch.ones(shape.context, shape.context), diagonal=1)
            self.register_buffer("mask", mask)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(batch, tokens, self.heads, width // self.heads)

        keys, values, queries = split(self.key(x)), split(self.value(x)), split(self.query(x))
        if self.keys is None:
            self.keys, self.values = keys, values
        else:
            self.keys, self.values = torch.cat([self.keys, keys], dim=1), torch.cat([self.values, values], dim=1)
        keys, values, queries = (y.transpose(1, 2) for y in (self.keys, self.values, queries))
        scores = queries @ keys.transpose(2, 3)
        weights = torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1)
        return self.out((weights @ values).transpose(1, 2).contiguous().view(batch, tokens, width))


class FeedForward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gated = shape.gated > 0
        units = shape.gated or 4 * shape.width
        self.up = nn.Linear(shape.width, units, bias=not self.gated)
        self.down = nn.Linear(units, shape.width, bias=not self.gated)
        if self.gated:
            self.gate = nn.Linear(shape.width, units, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up = self.up(x)
        return self.down(nn.functional.silu(up) * self.gate(x) if self.gated else nn.functional.gelu(up))


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.attention, self.feed_forward = Attention(shape), FeedForward(shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.feed_forward(self.second(x))


class Gpt(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.out = nn.Linear(shape.width, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor, position: int) -> torch.Tensor:
        places = torch.arange(position, position + tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))
