"""The programs that are recorded: how many steps each has, and what builds the function of one."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..training import workloads
from ..training.workloads import Gpt2, Step, descend


class Program(NamedTuple):
    steps: int
    # Takes what decides over shapes.
    build: Callable[[random.Random], Step]


_BERT_WORDS, _BERT_WIDTH, _BERT_LONGEST = 30522, 768, 512


class _Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(_BERT_WORDS, _BERT_WIDTH)
        self.places = nn.Embedding(_BERT_LONGEST, _BERT_WIDTH)
        self.norm = nn.LayerNorm(_BERT_WIDTH)
        layer = nn.TransformerEncoderLayer(_BERT_WIDTH, 12, 4 * _BERT_WIDTH, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 12)
        self.head = nn.Sequential(nn.Linear(_BERT_WIDTH, _BERT_WIDTH), nn.GELU(), nn.LayerNorm(_BERT_WIDTH))

    def forward(self, tokens: torch.Tensor, padded: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = F.dropout(self.norm(self.words(tokens) + self.places(places)), 0.1)
        hidden = self.head(self.encoder(hidden, src_key_padding_mask=padded))
        return F.linear(hidden, self.words.weight)


def bert(shapes: random.Random) -> Step:
    """BERT base out of torch.nn's encoder, trained in single precision to fill in masked words of padded batches."""
    model = _Bert().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        lengths = [shapes.randint(24, _BERT_LONGEST) for _ in range(16)]
        places = torch.arange(max(lengths), device="cuda")
        padded = places >= torch.tensor(lengths).cuda()[:, None]
        tokens = torch.randint(_BERT_WORDS, padded.shape, device="cuda")
        masked = (torch.rand(padded.shape, device="cuda") < 0.15) & ~padded
        logits = model(tokens.masked_fill(masked, 0), padded)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.masked_fill(~masked, -100).flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


_CHANNELS = (192, 384, 768)
_TIME = 768
# Of the latent images, height and width: one number of pixels in several formats, as when trained by aspect ratio.
_FORMATS = ((64, 64), (56, 72), (72, 56), (48, 80), (80, 48), (40, 96), (96, 40))
_LATENTS, _TIMES = 4, 1000
_SAMPLE_EVERY, _SAMPLE_STEPS = 10, 8


class _Block(nn.Module):
    """Two convolutions around a shortcut, told the time; attention where the images are small."""

    def __init__(self, before: int, after: int, attends: bool) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1))
        self.time = nn.Linear(_TIME, after)
        self.second = nn.Sequential(nn.GroupNorm(32, after), nn.SiLU(), nn.Conv2d(after, after, 3, padding=1))
        self.shortcut = nn.Conv2d(before, after, 1) if before != after else nn.Identity()
        self.attends = nn.MultiheadAttention(after, after // 64, batch_first=True) if attends else None

    def forward(self, images: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        hidden = self.second(self.first(images) + self.time(F.silu(time))[:, :, None, None])
        hidden = hidden + self.shortcut(images)
        if self.attends is None:
            return hidden
        places = hidden.flatten(2).transpose(1, 2)
        mixed, _ = self.attends(places, places, places, need_weights=False)
        return hidden + mixed.transpose(1, 2).unflatten(2, hidden.shape[2:])


class _Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Embedding(_TIMES, _TIME), nn.Linear(_TIME, _TIME), nn.SiLU())
        self.begin = nn.Conv2d(_LATENTS, _CHANNELS[0], 3, padding=1)
        pairs = list(zip((_CHANNELS[0], *_CHANNELS), _CHANNELS, strict=False))
        self.down = nn.ModuleList(_Block(before, after, after >= 384) for before, after in pairs)
        self.middle = _Block(_CHANNELS[-1], _CHANNELS[-1], True)
        self.up = nn.ModuleList(_Block(2 * after, before, after >= 384) for before, after in reversed(pairs))
        self.end = nn.Sequential(
            nn.GroupNorm(32, _CHANNELS[0]), nn.SiLU(), nn.Conv2d(_CHANNELS[0], _LATENTS, 3, padding=1)
        )

    def forward(self, images: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        time, hidden, passed = self.time(times), self.begin(images), []
        for block in self.down:
            passed.append(block(hidden, time))
            hidden = F.avg_pool2d(passed[-1], 2)
        hidden = self.middle(hidden, time)
        for block in self.up:
            hidden = torch.cat([F.interpolate(hidden, scale_factor=2), passed.pop()], dim=1)
            hidden = block(hidden, time)
        return self.end(hidden)


def diffusion(shapes: random.Random) -> Step:
    """A U-Net trained on images of several formats, whose averaged weights draw samples in between."""
    model = _Unet().cuda()
    averaged = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    done = 0

    def step() -> None:
        nonlocal done
        images = torch.randn(shapes.randint(8, 24), _LATENTS, *shapes.choice(_FORMATS), device="cuda")
        times, noise = torch.randint(_TIMES, (len(images),), device="cuda"), torch.randn_like(images)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = model(images + noise * times[:, None, None, None] / _TIMES, times)
        # The loss is gone before the optimizer's step, which workloads.descend() would hold.
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(found.float(), noise).backward()
        optimizer.step()
        for kept, weight in zip(averaged.parameters(), model.parameters(), strict=True):
            kept.lerp_(weight.detach(), 0.001)
        done += 1
        if done % _SAMPLE_EVERY == 0:
            _sample(averaged, shapes.randint(1, 8), shapes.choice(_FORMATS))

    return step


@torch.no_grad()
def _sample(model: _Unet, count: int, form: tuple[int, int]) -> None:
    """Each with guidance and without, in one batch."""
    images = torch.randn(count, _LATENTS, *form, device="cuda")
    for number in reversed(range(_SAMPLE_STEPS)):
        times = torch.full((2 * count,), number * _TIMES // _SAMPLE_STEPS, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            guided, free = model(torch.cat([images, images]), times).chunk(2)
        images = images - (free + 7.5 * (guided - free)).float() / _SAMPLE_STEPS
    images.cpu()


_WORDS, _WIDTH, _HEADS, _LAYERS = 32000, 2048, 16, 6


class _DecoderLayer(nn.Module):
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


def gpt_decoder(shapes: random.Random) -> Step:
    """A decoder writes texts word by word: caches grow by being copied into longer ones, for two batches in turns."""
    embedding = nn.Embedding(_WORDS, _WIDTH).cuda().bfloat16()
    layers = nn.ModuleList(_DecoderLayer() for _ in range(_LAYERS)).cuda().bfloat16()
    running: list[_Texts] = []

    @torch.inference_mode()
    def step() -> None:
        if len(running) < 2:
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


def gpt_inference(shapes: random.Random) -> Step:
    """GPT-2 medium rates texts without gradients: batches of any length, whose results stay until a report is due."""
    model = Gpt2(layers=24, width=1024, heads=16).cuda().bfloat16().eval()
    words = model.words.num_embeddings
    rated: list[torch.Tensor] = []

    @torch.inference_mode()
    def step() -> None:
        length = shapes.randint(32, 1024)
        batch = max(1, 8192 // length)
        tokens = torch.randint(words, (batch, length), device="cuda")
        chances = model(tokens)[:, :-1].log_softmax(-1)
        rated.append(chances.gather(-1, tokens[:, 1:, None]).squeeze(-1))
        if len(rated) == 12:
            torch.cat([one.flatten() for one in rated]).float().mean().item()
            rated.clear()

    return step


class _Batches:
    """Images as bytes in pinned memory, on their way to the GPU one batch ahead."""

    def __init__(self, shapes: random.Random) -> None:
        self._shapes = shapes
        self._stream = torch.cuda.Stream()
        self._next = self._load()

    def take(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch that is ready; the one after it sets out."""
        current = torch.cuda.current_stream()
        current.wait_stream(self._stream)
        taken = self._next
        for tensor in taken:
            tensor.record_stream(current)
        self._next = self._load()
        return taken

    def _load(self) -> tuple[torch.Tensor, torch.Tensor]:
        batch, side = self._shapes.randint(16, 64), 32 * self._shapes.randint(5, 9)
        images = torch.empty(batch, 3, side, side, dtype=torch.uint8, device="cpu", pin_memory=True)
        labels = torch.zeros(batch, dtype=torch.long, device="cpu", pin_memory=True)
        with torch.cuda.stream(self._stream):
            floats = images.cuda(non_blocking=True).float().div_(255)
            return (floats - 0.45) / 0.225, labels.cuda(non_blocking=True)


def prefetch(shapes: random.Random) -> Step:
    """ConvNeXt-T in bfloat16, fed by a second stream: the next batch is copied and made ready while this one trains."""
    import torchvision

    model = torchvision.models.convnext_tiny(weights=None).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batches = _Batches(shapes)

    def step() -> None:
        images, labels = batches.take()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(images), labels)
        descend(optimizer, loss)

    return step


def vit_mixed(_: random.Random) -> Step:
    """ViT-B/16 in half precision with a loss scale: fixed shapes, gradients of four batches, half recomputed."""
    import torchvision

    model = torchvision.models.vit_b_16(weights=None).cuda()
    # Every other layer is computed a second time on the way back.
    for number, layer in enumerate(model.encoder.layers):
        if number % 2:
            layer.forward = _recomputed(layer.forward)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda")
    batches = 0

    def step() -> None:
        nonlocal batches
        images = torch.rand(128, 3, 224, 224, device="cuda")
        labels = torch.randint(1000, (128,), device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(images), labels) / 4
        scaler.scale(loss).backward()
        batches += 1
        if batches % 4 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)

    return step


def _recomputed(forward):
    return lambda hidden: checkpoint(forward, hidden, use_reentrant=False)


def _training(name: str) -> Program:
    return Program(60, functools.partial(workloads.build, name, quick=False))


PROGRAMS = {
    "bert60": Program(60, bert),
    "diffusion": Program(40, diffusion),
    "frcnn60": _training("fasterrcnn"),
    "gpt60": _training("gpt2"),
    "gpt_decoder": Program(360, gpt_decoder),
    "gpt_inference": Program(48, gpt_inference),
    "prefetch": Program(40, prefetch),
    "resnet60": _training("resnet50"),
    "vit_mixed": Program(40, vit_mixed),
}
