"""Programs that need more of a GPU than there is, each with the arguments that carry out what may be advised."""

from __future__ import annotations

import contextlib
import itertools
import sys
from pathlib import Path

import torch
from binding_helpers import MIB
from torch import nn
from torch.utils.checkpoint import checkpoint

sys.path.append(str(Path(__file__).parent / "libraries" / "site-packages"))
import gathering

WIDTH = 256
WORDS = 1 << 15


def layers(count: int = 6, width: int = WIDTH) -> nn.Sequential:
    blocks = [(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count)]
    return nn.Sequential(*(layer for block in blocks for layer in block))


def optimizer_of(model: nn.Module, optimizer: str = "AdamW", **options: bool) -> torch.optim.Optimizer:
    return getattr(torch.optim, optimizer)(model.parameters(), lr=1e-3, **options)


def recording(gradients: bool) -> contextlib.AbstractContextManager:
    return contextlib.nullcontext() if gradients else torch.no_grad()


def distances(pieces: int = 1) -> None:
    """All distances between 2**16 points, which are 16 GiB."""
    points = torch.zeros(1 << 16, 64, device="cuda")
    nearest = []
    for part in points.chunk(pieces):
        between = torch.cdist(part, points)
        nearest.append(between.argmin(1))
        del between


def distances_while_training(pieces: int = 1) -> None:
    """The same beside a model that has made a step, and results of which are kept for backward."""
    model = layers(2).cuda()
    loss = model(torch.zeros(2048, WIDTH, device="cuda")).square().mean()
    distances(pieces)
    loss.backward()


def training(batch: int = 1 << 14) -> None:
    model = layers().cuda()
    optimizer = optimizer_of(model)
    for _ in range(2):
        values = torch.zeros(batch, WIDTH, device="cuda")
        loss = model(values).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def training_from_loader(batch: int = 256) -> None:
    model = nn.Sequential(*(nn.Conv2d(3 if i == 0 else 16, 16, 3, padding=1) for i in range(8))).cuda()
    optimizer = optimizer_of(model, "SGD", momentum=True)
    loader = torch.utils.data.DataLoader(torch.zeros(1024, 3, 64, 64), batch)
    for values in loader:
        loss = model(values.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Language(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = layers(2)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.words(words)))


def distilled(batch: int = 64) -> None:
    """A small model learns what a larger one makes of the words, and the words."""
    teacher, student = Language().cuda(), Language().cuda()
    optimizer = optimizer_of(student, "SGD")
    for _ in range(2):
        words = torch.zeros(batch, 16, dtype=torch.long, device="cuda")
        with torch.no_grad():
            wanted = teacher(words)
        made = student(words)
        soft = nn.functional.kl_div(
            nn.functional.log_softmax(made / 2, -1), nn.functional.softmax(wanted / 2, -1), reduction="batchmean"
        )
        loss = nn.functional.cross_entropy(made.flatten(0, 1), words.flatten()) + soft
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def gathered_features(batch: int = 1 << 14) -> None:
    model, found = layers().cuda(), {"features": []}
    with torch.no_grad():
        for _ in range(8):
            values = torch.zeros(batch, WIDTH, device="cuda")
            made = model(values)
            found["features"].append(made)


def growing_batches(model: nn.Module, values: torch.Tensor, batches: tuple[int, ...], optimizer: str = "AdamW") -> None:
    """Trains with batches of one size after the other."""
    model.cuda()
    stepping = optimizer_of(model, optimizer)
    for batch in batches:
        inputs = values.expand(batch, *values.shape[1:]).cuda()
        loss = model(inputs).square().mean()
        stepping.zero_grad()
        loss.backward()
        stepping.step()


def growing_images(batch: int = 64, first: int = 4) -> None:
    convolutions = [(nn.Conv2d(3 if i == 0 else 16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()) for i in range(6)]
    model = nn.Sequential(*(layer for block in convolutions for layer in block))
    growing_batches(model, torch.zeros(1, 3, 64, 64), (first, first, batch))


def growing_from_the_first(batch: int = 64, first: int = 4) -> None:
    growing_batches(layers(4), torch.zeros(1, 256, WIDTH), (first, batch))


def growing_wide(batch: int = 256, first: int = 16) -> None:
    """48 MiB of parameters, whose step takes more than a small batch does."""
    growing_batches(layers(3, 1024), torch.zeros(1, 64, 1024), (first, first, batch))


def growing_from_loader(batch: int = 96, first: int = 8) -> None:
    model = nn.Sequential(*(nn.Conv2d(3 if i == 0 else 16, 16, 3, padding=1) for i in range(8))).cuda()
    optimizer = optimizer_of(model, "SGD", momentum=True)
    batches = [[0] * size for size in (first, first, batch)]
    for values in torch.utils.data.DataLoader(torch.zeros(1, 3, 64, 64), batch_sampler=batches):
        loss = model(values.cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def pooled(batch: int = 128) -> None:
    """A convolutional network whose later layers take less than its first ones."""
    widths = (3, 16, 32, 64, 128)
    blocks = [
        (nn.Conv2d(made, wide, 3, 2, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(), nn.Conv2d(wide, wide, 3, 1, 1))
        for made, wide in itertools.pairwise(widths)
    ]
    model = nn.Sequential(*(layer for block in blocks for layer in block), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    growing_batches(model, torch.zeros(1, 3, 128, 128), (batch,), "SGD")


class HourGlass(nn.Module):
    """Takes places away and brings them back, with joins to what was there, and has one pool for all."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList(self.block(*sizes) for sizes in ((3, width), (width, 2 * width)))
        self.middle = self.block(2 * width, 4 * width)
        self.up = nn.ModuleList(self.block(*sizes) for sizes in ((6 * width, 2 * width), (3 * width, width)))

    @staticmethod
    def block(taken: int, made: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(taken, made, 3, padding=1), nn.BatchNorm2d(made), nn.ReLU())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        joins = []
        for block in self.down:
            joins.append(block(images))
            images = self.pool(joins[-1])
        images = self.middle(images)
        for block in self.up:
            images = block(torch.cat((nn.functional.interpolate(images, scale_factor=2.0), joins.pop()), 1))
        return images


def hour_glass(batch: int = 64) -> None:
    growing_batches(HourGlass(), torch.zeros(1, 3, 64, 64), (batch,))


def language(batch: int = 8, chunks: int = 1) -> None:
    model = Language().cuda()
    words = torch.zeros(batch, 1024, dtype=torch.long, device="cuda")
    if chunks == 1:
        logits = model(words)
        loss = nn.functional.cross_entropy(logits.view(-1, WORDS), words.view(-1))
    else:

        def part_of_loss(hidden: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(model.head(hidden), right, reduction="sum")

        hidden = model.layers(model.words(words)).view(-1, WIDTH)
        parts = zip(hidden.chunk(chunks), words.view(-1).chunk(chunks), strict=True)
        loss = sum(checkpoint(part_of_loss, *part, use_reentrant=False) for part in parts) / words.numel()
    loss.backward()


class TiedLanguage(Language):
    """Its logits are made by no layer."""

    def __init__(self) -> None:
        super().__init__()
        del self.head

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.layers(self.words(words)) @ self.words.weight.t()


def tied_language(batch: int = 32) -> None:
    model = TiedLanguage().cuda()
    optimizer = optimizer_of(model, "AdamW")
    for _ in range(2):
        words = torch.zeros(batch, 128, dtype=torch.long, device="cuda")
        loss = nn.functional.cross_entropy(model(words).view(-1, WORDS), words.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def one_long_text(chunks: int = 1) -> None:
    language(1, chunks)


def distillation(gradients: bool = True) -> None:
    teacher, student = layers(8).cuda(), layers(1).cuda()
    optimizer = optimizer_of(student, "SGD")
    for _ in range(2):
        values = torch.zeros(4096, WIDTH, device="cuda")
        with recording(gradients):
            wanted = teacher(values)
        loss = (student(values) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def evaluation(gradients: bool = True) -> None:
    model = layers().cuda().eval()
    for _ in range(2):
        with recording(gradients):
            print(model(torch.zeros(4096, WIDTH, device="cuda")).shape)


def trainers_evaluation(**settings: int) -> None:
    trainer = gathering.Trainer(nn.Linear(WIDTH, WORDS).cuda(), gathering.Arguments(**settings))
    trainer.evaluate([torch.zeros(256, WIDTH, device="cuda") for _ in range(32)])


def predictions(on_host: bool = False) -> None:
    model = nn.Linear(WIDTH, WORDS).cuda()
    outputs = []
    with torch.no_grad():
        for _ in range(16):
            result = model(torch.zeros(256, WIDTH, device="cuda"))
            outputs.append(result.cpu() if on_host else result)
            del result
        print(torch.cat(outputs).shape)


def grown_predictions(on_host: bool = False) -> None:
    model = nn.Linear(WIDTH, WORDS).cuda()
    everything = torch.zeros(0, WORDS, device="cpu" if on_host else "cuda")
    with torch.no_grad():
        for _ in range(16):
            result = model(torch.zeros(256, WIDTH, device="cuda"))
            everything = torch.cat((everything, result.cpu() if on_host else result))


def wide_model(optimizer: str = "AdamW", **options: bool) -> None:
    """192 MiB of parameters, and few samples."""
    model = layers(6, 1024).cuda()
    stepping = optimizer_of(model, optimizer, **options)
    for _ in range(3):
        loss = model(torch.zeros(4, 1024, device="cuda")).square().mean()
        stepping.zero_grad()
        loss.backward()
        stepping.step()


def losses(detached: bool = False) -> None:
    scale = torch.ones(1, device="cuda", requires_grad=True)
    kept = []
    for _ in range(20):
        loss = (torch.zeros(4 * MIB, device="cuda") * scale).exp().sum()
        kept.append(loss.detach() if detached else loss)


def attention(batch: int = 16, pieces: int = 1, dtype: torch.dtype = torch.float32) -> None:
    """As an evaluation computes it: 16 MiB of scores for each row, and as much of weights."""
    with torch.no_grad():
        queries = torch.zeros(batch, 4, 1024, 64, device="cuda", dtype=dtype)
        for part in queries.chunk(pieces):
            scores = part @ part.transpose(-1, -2)
            weights = scores.softmax(-1)
            del scores, weights


def inference(batch: int = 1 << 15, dtype: torch.dtype = torch.float32) -> None:
    model = layers(4).cuda().to(dtype)
    with torch.no_grad():
        model(torch.zeros(batch, WIDTH, device="cuda", dtype=dtype))


def moved(dtype: torch.dtype = torch.float32) -> None:
    model = layers(6, 1024).to(dtype).cuda()
    with torch.no_grad():
        model(torch.zeros(4, 1024, device="cuda", dtype=dtype))


def decoded(images: int = 1, tiling: bool = False, slicing: bool = False) -> None:
    model = gathering.Autoencoder().cuda()
    if tiling:
        model.enable_tiling()
    if slicing:
        model.enable_slicing()
    with torch.no_grad():
        model.decode(torch.zeros(images, 4, 128, 128, device="cuda"))


def decoded_batch(tiling: bool = False, slicing: bool = False) -> None:
    decoded(16, tiling, slicing)


def segmented(device: str | None = None) -> None:
    model = nn.Conv3d(1, 16, 3, padding=1).cuda()
    volume = torch.zeros(1, 1, 256, 128, 128, device="cuda")
    with torch.no_grad():
        gathering.sliding_window_inference(volume, 32, 1, model, device)


def helped(helper_first: bool = True) -> None:
    """Something is made long before it is used."""
    model = layers().cuda()
    helper = torch.zeros(50 * MIB, device="cuda") if helper_first else None
    result = model(torch.zeros(2048, WIDTH, device="cuda")).square().mean()
    result.backward()
    if helper is None:
        helper = torch.zeros(50 * MIB, device="cuda")
    print(helper.shape)


def spread(at_once: bool = False) -> None:
    """Small tensors stay where many were, in pages that nothing large can use."""
    if at_once:
        kept = [torch.zeros(323, 16 << 10, device="cuda")]
    else:
        small = [torch.zeros(16 << 10, device="cuda") for _ in range(10_000)]
        kept = small[::31]
        del small
    large = torch.zeros(75 * MIB, device="cuda")
    print(len(kept), large.shape)
