"""The training of a detector."""

from __future__ import annotations

import itertools
import random

from .distributions import log_uniform
from .recorder import MIB, Recorder

_FLOAT = 4
_IMAGES = 2
# (channels, convolutions, stride against the image) of a backbone's stages, as in ResNet-50.
_STAGES = ((64, 1, 2), (256, 9, 4), (512, 12, 8), (1024, 18, 16), (2048, 9, 32))
_PYRAMID_STRIDES = (4, 8, 16, 32)
_PYRAMID_CHANNELS = 256
_PROPOSALS, _CLASSES = 512, 91


def multi_scale(chance: random.Random, rounds: int = 50, warm_up: int = 12) -> Recorder:
    """Multi-scale detection: every batch of images has another size, and every image another number of proposals."""
    detector = _Detector(chance)
    for _ in detector.rounds(rounds, warm_up):
        detector.train_step()
    return detector


class _Detector(Recorder):
    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._parameters = [
            size * _FLOAT
            for channels, convolutions, _ in _STAGES
            for _ in range(convolutions)
            for size in (channels * channels * 3 // 2, channels, channels)
        ]
        self._parameters += [_PYRAMID_CHANNELS * _PYRAMID_CHANNELS * 9 * _FLOAT] * 8 + [12_544 * 1_024 * _FLOAT]
        self.allocate_all(self._parameters)
        self._momentum: list[int] = []
        self._gradients: list[int] = []

    def train_step(self) -> None:
        self.free_all(self._gradients)
        height, width = self._image_size()
        image = height * width * 3 * _FLOAT
        images = self.allocate_all([image] * _IMAGES)
        batch = self.allocate(image * _IMAGES)
        self.free_all(images)
        kept = self._backbone(height, width)
        for stride in _PYRAMID_STRIDES:
            kept += self.allocate_all([self._map_bytes(height, width, _PYRAMID_CHANNELS, stride)] * 2)
        for _ in range(_IMAGES):
            kept += self._proposals(height, width)
        self._backward(kept + self._regions())
        self.free(batch)
        self._momentum = self._momentum or self.allocate_all(self._parameters)

    def _image_size(self) -> tuple[int, int]:
        short = self._chance.randint(480, 800)
        long = min(1_333, short * self._chance.randint(100, 180) // 100)
        # Batches are padded to multiples of the coarsest stride.
        short, long = -(-short // 32) * 32, -(-long // 32) * 32
        return (short, long) if self._chance.random() < 0.5 else (long, short)

    def _map_bytes(self, height: int, width: int, channels: int, stride: int) -> int:
        return _IMAGES * channels * (height // stride) * (width // stride) * _FLOAT

    def _backbone(self, height: int, width: int) -> list[int]:
        kept = []
        for channels, convolutions, stride in _STAGES:
            for number in range(convolutions):
                # Bottlenecks: every third convolution has the stage's full width.
                narrow = channels if number % 3 == 2 or convolutions == 1 else channels // 4
                size = self._map_bytes(height, width, narrow, stride)
                self.temporary(self._workspace(size))
                # The convolution, and what is normalised and then activated in place.
                kept += self.allocate_all((size, size))
        return kept

    def _workspace(self, size: int) -> int:
        """What a convolution asks for to work in: anything between nothing to speak of and several maps."""
        return log_uniform(self._chance, 4_096, max(4_096, min(3 * size, 192 * MIB)))

    def _proposals(self, height: int, width: int) -> list[int]:
        """Anchors, scores and boxes of one image: many small tensors, of which the chosen boxes stay."""
        kept = []
        for stride in _PYRAMID_STRIDES:
            anchors = 3 * (height // stride) * (width // stride)
            scratch = self.allocate_all(anchors * size for size in (16, 4, 16, 8))
            chosen = min(anchors, self._chance.randint(300, 2_000))
            *more, boxes = self.allocate_all(chosen * size for size in (16, 4, 8, 1, 16))
            kept.append(boxes)
            # Suppression compares every box with every other, 64 at a time.
            self.temporary(chosen * (chosen // 64 + 1) * 8)
            scratch += more
            self._chance.shuffle(scratch)
            self.free_all(scratch)
        objects = self._chance.randint(1, 40)
        self.temporary(objects * 2_000 * _FLOAT)
        return kept + self.allocate_all(objects * size for size in (16, 8, 8))

    def _regions(self) -> list[int]:
        regions = sum(self._chance.randint(_PROPOSALS // 3, _PROPOSALS) for _ in range(2))
        channels = _PYRAMID_CHANNELS * _FLOAT
        sizes = [channels * 49] * 2 + [1_024 * _FLOAT] * 4 + [_CLASSES * 4, _CLASSES * 16]
        kept = self.allocate_all(regions * size for size in sizes)
        masked = max(1, regions // self._chance.randint(3, 12))
        return kept + self.allocate_all(masked * size for size in [channels * 196] * 4 + [_CLASSES * 784 * _FLOAT])

    def _backward(self, kept: list[int]) -> None:
        gradients = iter(reversed(self._parameters))
        while kept:
            tensor = kept.pop()
            flowing = self.allocate(self.size_of(tensor))
            if len(kept) % 2:
                self.temporary(self._workspace(self.size_of(tensor)))
                self._gradients += self.allocate_all(itertools.islice(gradients, 2))
            self.free_all([tensor, flowing])
        self._gradients += self.allocate_all(gradients)
