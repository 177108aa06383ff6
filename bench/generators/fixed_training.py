"""A training loop with fixed shapes: after the first iterations, the same calls in the same order.

Of one stream, or of several, each of which trains a model of its own while the host serves in turn.
"""

from __future__ import annotations

import dataclasses
import random

from .recorder import Recorder
from .transformer import Shape, Transformer

_MODEL = Shape(layers=24, hidden=768)


@dataclasses.dataclass(frozen=True)
class Parameters:
    iterations: int = 12
    streams: int = 1
    # By stream, and round again.
    batches: tuple[int, ...] = (8, 6, 4, 10)
    lengths: tuple[int, ...] = (640, 384, 900, 257)
    stream_lag: int = 0
    model: Shape = _MODEL


FOUR_STREAMS = Parameters(streams=4, stream_lag=32, model=Shape(layers=6, hidden=512, heads=8, vocabulary=16_000))


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder(parameters.stream_lag)
    models = [Transformer(recorder, parameters.model, stream) for stream in range(parameters.streams)]
    for _ in range(parameters.iterations):
        for number, model in enumerate(models):
            batch = parameters.batches[number % len(parameters.batches)]
            model.train_step(batch, parameters.lengths[number % len(parameters.lengths)])
        recorder.end_iteration()
    return recorder
