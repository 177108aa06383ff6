"""The two models of turns.py: a small language model as it is served, with caches in blocks, and as it is trained."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

PROMPT, GROUP, BLOCK = 4, 4, 16


class Sizes(NamedTuple):
    width: int
    layers: int
    heads: int
    words: int
    sequences: int
    tokens: int
    cache_blocks: int
    parts: int


SIZES = {
    "large": Sizes(2048, 16, 16, 32000, sequences=64, tokens=64, cache_blocks=4096, parts=8),
    "small": Sizes(128, 2, 4, 512, sequences=8, tokens=16, cache_blocks=64, parts=2),
}


def attended(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, heads: int, causal: bool) -> torch.Tensor:
    query, key, value = (one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in (query, key, value))
    found = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    return found.transpose(1, 2).flatten(2)


class Layer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self._heads = sizes.heads
        self.query, self.key, self.value, self.out = (nn.Linear(sizes.width, sizes.width, bias=False) for _ in range(4))
        self.up = nn.Linear(sizes.width, 4 * sizes.width, bias=False)
        self.down = nn.Linear(4 * sizes.width, sizes.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = functional.layer_norm(x, x.shape[-1:])
        x = x + self.out(attended(self.query(normed), self.key(normed), self.value(normed), self._heads, causal=True))
        return x + self.down(functional.gelu(self.up(functional.layer_norm(x, x.shape[-1:]))))


class TrainedModel(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.words = nn.Embedding(sizes.words, sizes.width)
        self.head = nn.Linear(sizes.width, sizes.words, bias=False)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.head(functional.layer_norm(x, x.shape[-1:]))


class ServedModel:
    """The same weights in half precision. They are loaded, then those of query, key and value become one matrix."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        made = torch.Generator("cpu").manual_seed(2)
        self.words, self.head = (self._half(made, sizes.words) for _ in range(2))
        rows = *(4 * (sizes.width,)), *(2 * (4 * sizes.width,))
        loaded = [[self._half(made, count) for count in rows] for _ in range(sizes.layers)]
        self.layers: list[tuple[torch.Tensor, ...]] = []
        while loaded:
            *separate, out, up, down = loaded.pop(0)
            self.layers.append((torch.cat(separate), out, up, down.T))

    def _half(self, made: torch.Generator, rows: int) -> torch.Tensor:
        """A matrix of a checkpoint."""
        scale = self._sizes.width**-0.5
        return (torch.randn(rows, self._sizes.width, generator=made).cuda() * scale).to(torch.bfloat16)

    def parameters(self) -> list[torch.Tensor]:
        return [self.words, self.head, *(weight for layer in self.layers for weight in layer)]

    def load(self, weights: list[torch.Tensor]) -> None:
        """Those of a TrainedModel, in its order."""
        rest = iter(weights)
        for weight in (self.words, self.head):
            weight.copy_(next(rest))
        for fused, *others in self.layers:
            for part in fused.chunk(3):
                part.copy_(next(rest))
            for weight in others:
                weight.copy_(next(rest))


def caches_of(sizes: Sizes) -> list[torch.Tensor]:
    """For each layer the keys and values of all blocks."""
    shape = 2, sizes.cache_blocks, BLOCK, sizes.width
    return [torch.empty(shape, dtype=torch.bfloat16, device="cuda") for _ in range(sizes.layers)]


class Server:
    def __init__(self, sizes: Sizes, model: ServedModel, caches: list[torch.Tensor]) -> None:
        self.model, self.caches = model, caches
        self._sizes = sizes

    @torch.no_grad()
    def generate(self, turn: int) -> list[list[int]]:
        """Of each sequence the prompt and what follows. A group has the same prompt."""
        sizes = self._sizes
        drawn = torch.Generator("cpu").manual_seed(turn)
        prompts = torch.randint(sizes.words, (sizes.sequences // GROUP, PROMPT), generator=drawn)
        tokens = prompts.repeat_interleave(GROUP, dim=0).cuda()
        blocks = -(-(PROMPT + sizes.tokens) // BLOCK)
        # In any order, as requests come and go.
        table = torch.randperm(sizes.cache_blocks, generator=drawn)[: sizes.sequences * blocks]
        table = table.view(sizes.sequences, blocks).cuda()
        for place in range(PROMPT + sizes.tokens - 1):
            scores = self._decoded(tokens[:, place], place, table).float()
            if place >= PROMPT - 1:
                noise = torch.rand(scores.shape, generator=drawn).cuda()
                chosen = (scores - (-noise.log()).log()).argmax(-1)
                tokens = torch.cat([tokens, chosen[:, None]], dim=1)
        return tokens.tolist()

    def _decoded(self, words: torch.Tensor, place: int, table: torch.Tensor) -> torch.Tensor:
        x = functional.embedding(words, self.model.words)[:, None]
        seen = table[:, : place // BLOCK + 1]
        for (fused, out, up, down), cache in zip(self.model.layers, self.caches, strict=True):
            query, *new = (functional.layer_norm(x, x.shape[-1:]) @ fused.T).chunk(3, dim=-1)
            for side, values in zip(cache, new, strict=True):
                side[table[:, place // BLOCK], place % BLOCK] = values[:, 0]
            key, value = (side[seen].flatten(1, 2)[:, : place + 1] for side in cache)
            x = x + attended(query, key, value, self._sizes.heads, causal=False) @ out.T
            x = x + functional.gelu(functional.layer_norm(x, x.shape[-1:]) @ up.T) @ down.T
        return (functional.layer_norm(x, x.shape[-1:]) @ self.model.head.T)[:, 0]


class Trainer:
    def __init__(self, sizes: Sizes) -> None:
        torch.manual_seed(1)
        with torch.device("cuda"):
            self.model = TrainedModel(sizes)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self._parts = sizes.parts

    def step(self, tokens: list[list[int]], around_first: contextlib.AbstractContextManager) -> float:
        """Returns the loss. The optimizer makes its state within `around_first`, in the first step."""
        sequences = torch.tensor(tokens)
        gains = (sequences[:, PROMPT:] % 2).float().mean(1).view(-1, GROUP)
        advantages = ((gains - gains.mean(1, keepdim=True)) / (gains.std(1, keepdim=True) + 1e-4)).flatten()
        losses = []
        for part, advantage in zip(sequences.chunk(self._parts), advantages.chunk(self._parts), strict=True):
            loss = self._loss(part.cuda(), advantage.cuda()) / self._parts
            loss.backward()
            losses.append(loss.item())
        with contextlib.nullcontext() if self.optimizer.state else around_first:
            self.optimizer.step()
        self.optimizer.zero_grad()
        return sum(losses)

    def _loss(self, tokens: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
        scores = self.model(tokens[:, :-1]).flatten(0, 1)
        surprise = functional.cross_entropy(scores, tokens[:, 1:].flatten(), reduction="none")
        return (surprise.view(len(tokens), -1)[:, PROMPT - 1 :] * advantage[:, None]).mean()

    def state(self) -> list[torch.Tensor]:
        """Weights, and what the optimizer keeps on the GPU."""
        kept = [value for state in self.optimizer.state.values() for value in state.values()]
        return [*self.model.parameters(), *(value for value in kept if value.is_cuda)]
