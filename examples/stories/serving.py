"""Serves requests of any length with a cache of keys and values for each, which grows by concatenation.

    frugal-alloc simulate --memory 4GiB -- python examples/stories/serving.py --allocator native

The model is two layers of the size that Llama 2 7B has 32 of. Weights and prompts hold nothing that means something.
"""

import argparse
import dataclasses
import random
import sys
from collections.abc import Iterator

import story
import torch
from torch import nn
from torch.nn import functional

LAYERS, HEADS, HEAD, INNER, VOCABULARY = 2, 32, 128, 11008, 32000
HIDDEN = HEADS * HEAD
# Tokens of a prompt that are read at a time.
CHUNK = 512
# Keys and values of one token, in half precision.
TOKEN_BYTES = LAYERS * 2 * HIDDEN * 2
# What a layer needs of each token of a prompt while it is read.
CHUNK_BYTES = CHUNK * 2 * (6 * HIDDEN + 4 * INNER)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner_norm = nn.RMSNorm(HIDDEN), nn.RMSNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False), nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up, self.down = nn.Linear(HIDDEN, 2 * INNER, bias=False), nn.Linear(INNER, HIDDEN, bias=False)


@dataclasses.dataclass
class Request:
    prompt: int
    wanted: int
    made: int = 0
    # Of each layer, the keys and values of all tokens so far.
    cache: list[tuple[torch.Tensor, torch.Tensor]] = dataclasses.field(default_factory=list)

    @property
    def tokens(self) -> int:
        return self.cache[0][0].shape[2] if self.cache else 0

    def attend(self, number: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Of the new tokens; the cache grows by theirs as transformers' DynamicCache does."""
        if number < len(self.cache):
            old_key, old_value = self.cache[number]
            key, value = torch.cat([old_key, key], dim=2), torch.cat([old_value, value], dim=2)
            self.cache[number] = (key, value)
        else:
            self.cache.append((key.contiguous(), value.contiguous()))
        new, all_tokens = query.shape[2], key.shape[2]
        seen = torch.ones(new, all_tokens, dtype=torch.bool, device="cuda").tril(all_tokens - new) if new > 1 else None
        return functional.scaled_dot_product_attention(query, key, value, seen)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor, requests: list[Request], lengths: list[int]) -> torch.Tensor:
        """The next token of each request, of which `lengths` new tokens lie in a row in `tokens`."""
        hidden = self.embedding(tokens)
        for number, layer in enumerate(self.layers):
            query, key, value = layer.qkv(layer.norm(hidden)).view(-1, 3, HEADS, HEAD).permute(1, 2, 0, 3).unsqueeze(1)
            parts = zip(requests, *(one.split(lengths, dim=2) for one in (query, key, value)), strict=True)
            attended = torch.cat([one.attend(number, *new) for one, *new in parts], dim=2)
            hidden = hidden + layer.out(attended.transpose(1, 2).reshape(-1, HIDDEN))
            gate, up = layer.up(layer.inner_norm(hidden)).chunk(2, dim=1)
            hidden = hidden + layer.down(functional.silu(gate) * up)
        last = torch.tensor(lengths).cumsum(0) - 1
        return self.head(hidden[last.cuda()]).argmax(dim=1)


class Server:
    def __init__(self, model: Model, budget: int, waiting: Iterator[Request]) -> None:
        self._model, self._budget, self._waiting = model, budget, waiting
        self._next = next(waiting)
        self._running: list[Request] = []
        self.completed, self.evicted, self.most_tokens = 0, 0, 0

    def fits(self, size: int) -> bool:
        """Whether so many more bytes fit, by the memory that is in use."""
        return torch.cuda.memory_allocated() + size + CHUNK_BYTES <= self._budget

    def take(self, request: Request) -> None:
        for start in range(0, request.prompt, CHUNK):
            length = min(CHUNK, request.prompt - start)
            self._model(torch.zeros(length, dtype=torch.long, device="cuda"), [request], [length])
        self._running.append(request)
        self.count()

    def count(self) -> None:
        self.most_tokens = max(self.most_tokens, sum(one.tokens for one in self._running))

    def step(self) -> None:
        """Takes what fits, of the requests that always wait; then one more token of each that runs."""
        while self.fits(self._next.prompt * TOKEN_BYTES):
            self.take(self._next)
            self._next = next(self._waiting)
        while not self.fits(len(self._running) * TOKEN_BYTES):
            self._running.pop()
            self.evicted += 1
        running = self._running
        self._model(torch.zeros(len(running), dtype=torch.long, device="cuda"), running, [1] * len(running))
        self.count()
        for request in running:
            request.made += 1
        self._running = [one for one in running if one.made < one.wanted]
        self.completed += len(running) - len(self._running)


def part(text: str) -> float:
    """An argument that leaves room for the weights and for the longest prompt."""
    if text not in {f"{percent / 100:g}" for percent in range(60, 101)}:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part from 0.6 to 1 in hundredths")
    return float(text)


def requests(chance: random.Random) -> Iterator[Request]:
    while True:
        yield Request(prompt=int(128 * 32 ** chance.random()), wanted=chance.randint(8, 128))


@torch.inference_mode()
def main() -> int:
    parser = story.parser(__doc__)
    parser.add_argument("--steps", type=story.count, default=50, help="tokens that each request gets (default 50)")
    parser.add_argument("--budget", type=part, default=0.92, help="part of the memory for tensors (default 0.92)")
    options = parser.parse_args()
    story.use(options.allocator)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Model()
    course = story.Course()
    free, _ = torch.cuda.mem_get_info()
    available = torch.cuda.memory_reserved() + free
    server = Server(model, int(options.budget * available), requests(random.Random(0)))
    course.run(options.steps, server.step)
    told = {"completed": server.completed, "evicted": server.evicted, "most_tokens": server.most_tokens}
    print(", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in told.items()))
    return course.end(options.json, available_bytes=available, **told)


if __name__ == "__main__":
    sys.exit(main())
