"""Multi-scale detection: every batch of images has another size, and every image another number of proposals."""

from __future__ import annotations

import dataclasses
import random

from .distributions import log_uniform
from .recorder import MIB, Recorder

_FLOAT = 4
# (channels, convolutions, stride against the image) of a backbone's stages, as in ResNet-50.
_STAGES = ((64, 1, 2), (256, 9, 4), (512, 12, 8), (1024, 18, 16), (2048, 9, 32))
_PYRAMID_CHANNELS = 256


@dataclasses.dataclass(frozen=True)
class Parameters:
    steps: int = 50
    warm_up_steps: int = 12
    images: int = 2
    shortest_side: int = 480
    longest_short_side: int = 800
    longest_side: int = 1_333
    proposals: int = 512
    classes: int = 91


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder()
    detector = _Detector(recorder, chance, parameters)
    for _ in recorder.rounds(parameters.steps, parameters.warm_up_steps):
        detector.train_step()
    return recorder


class _Detector:
    def __init__(self, recorder: Recorder, chance: random.Random, parameters: Parameters) -> None:
        self._recorder = recorder
        self._chance = chance
        self._parameters = parameters
        self._sizes = [
            size
            for channels, convolutions, _ in _STAGES
            for _ in range(convolutions)
            for size in (channels * channels * 3 * _FLOAT // 2, channels * _FLOAT, channels * _FLOAT)
        ]
        self._sizes += [_PYRAMID_CHANNELS * _PYRAMID_CHANNELS * 9 * _FLOAT] * 8 + [12_544 * 1_024 * _FLOAT] * 1
        self._weights = [recorder.allocate(size) for size in self._sizes]
        self._momentum: list[int] = []
        self._gradients: list[int] = []

    def train_step(self) -> None:
        recorder = self._recorder
        recorder.free_all(self._gradients)
        height, width = self._image_size()
        images = [recorder.allocate(height * width * 3 * _FLOAT) for _ in range(self._parameters.images)]
        batch = recorder.allocate(height * width * 3 * _FLOAT * self._parameters.images)
        recorder.free_all(images)
        kept = self._backbone(height, width)
        kept += self._pyramid(height, width)
        for _ in range(self._parameters.images):
            kept += self._proposals(height, width)
        kept += self._regions()
        self._backward(kept)
        recorder.free(batch)
        if not self._momentum:
            self._momentum = [recorder.allocate(size) for size in self._sizes]

    def _image_size(self) -> tuple[int, int]:
        parameters = self._parameters
        short = self._chance.randint(parameters.shortest_side, parameters.longest_short_side)
        long = min(parameters.longest_side, short * self._chance.randint(100, 180) // 100)
        # Batches are padded to multiples of the coarsest stride.
        short, long = -(-short // 32) * 32, -(-long // 32) * 32
        return (short, long) if self._chance.random() < 0.5 else (long, short)

    def _map_bytes(self, height: int, width: int, channels: int, stride: int) -> int:
        return self._parameters.images * channels * (height // stride) * (width // stride) * _FLOAT

    def _backbone(self, height: int, width: int) -> list[int]:
        recorder = self._recorder
        kept = []
        for channels, convolutions, stride in _STAGES:
            for number in range(convolutions):
                # Bottlenecks: every third convolution has the stage's full width.
                narrow = channels if number % 3 == 2 or convolutions == 1 else channels // 4
                size = self._map_bytes(height, width, narrow, stride)
                recorder.temporary(self._workspace(size))
                kept.append(recorder.allocate(size))  # convolution
                kept.append(recorder.allocate(size))  # normalised, activated in place
        return kept

    def _workspace(self, size: int) -> int:
        """What a convolution asks for to work in: anything between nothing to speak of and several maps."""
        return log_uniform(self._chance, 4_096, max(4_096, min(3 * size, 192 * MIB)))

    def _pyramid(self, height: int, width: int) -> list[int]:
        kept = []
        for _, _, stride in _STAGES[1:]:
            size = self._map_bytes(height, width, _PYRAMID_CHANNELS, stride)
            kept += [self._recorder.allocate(size) for _ in range(2)]
        return kept

    def _proposals(self, height: int, width: int) -> list[int]:
        """Anchors, scores and boxes of one image: many small tensors, of which the chosen boxes stay."""
        recorder, chance = self._recorder, self._chance
        kept = []
        for _, _, stride in _STAGES[1:]:
            anchors = 3 * (height // stride) * (width // stride)
            scratch = [recorder.allocate(anchors * size) for size in (16, 4, 16, 8)]
            chosen = min(anchors, chance.randint(300, 2_000))
            scratch += [recorder.allocate(chosen * size) for size in (16, 4, 8, 1)]
            kept.append(recorder.allocate(chosen * 16))
            # Suppression compares every box with every other, 64 at a time.
            recorder.temporary(chosen * (chosen // 64 + 1) * 8)
            chance.shuffle(scratch)
            recorder.free_all(scratch)
        objects = chance.randint(1, 40)
        recorder.temporary(objects * 2_000 * _FLOAT)
        kept += [recorder.allocate(objects * size) for size in (16, 8, 8)]
        return kept

    def _regions(self) -> list[int]:
        recorder, parameters = self._recorder, self._parameters
        regions = sum(self._chance.randint(parameters.proposals // 3, parameters.proposals) for _ in range(2))
        kept = [recorder.allocate(regions * _PYRAMID_CHANNELS * 49 * _FLOAT) for _ in range(2)]
        kept += [recorder.allocate(regions * 1_024 * _FLOAT) for _ in range(4)]
        kept += [recorder.allocate(regions * parameters.classes * size) for size in (4, 16)]
        masked = max(1, regions // self._chance.randint(3, 12))
        kept += [recorder.allocate(masked * _PYRAMID_CHANNELS * 196 * _FLOAT) for _ in range(4)]
        kept.append(recorder.allocate(masked * parameters.classes * 784 * _FLOAT))
        return kept

    def _backward(self, kept: list[int]) -> None:
        recorder = self._recorder
        gradients = iter(reversed(self._sizes))
        while kept:
            tensor = kept.pop()
            flowing = recorder.allocate(recorder.size_of(tensor))
            if len(kept) % 2:
                recorder.temporary(self._workspace(recorder.size_of(tensor)))
                for size in [size for _, size in zip(range(2), gradients, strict=False)]:
                    self._gradients.append(recorder.allocate(size))
            recorder.free(tensor)
            recorder.free(flowing)
        self._gradients += [recorder.allocate(size) for size in gradients]
