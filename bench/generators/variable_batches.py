"""Variable-length batches: a transformer is trained on sentences whose length differs from step to step."""

from __future__ import annotations

import dataclasses
import random

from .distributions import log_uniform
from .recorder import Recorder
from .transformer import Shape, Transformer

_MODEL = Shape()


@dataclasses.dataclass(frozen=True)
class Parameters:
    steps: int = 40
    warm_up_steps: int = 10
    batch: int = 12
    shortest: int = 48
    longest: int = 1_024
    model: Shape = _MODEL


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder()
    model = Transformer(recorder, parameters.model)
    for _ in recorder.rounds(parameters.steps, parameters.warm_up_steps):
        model.train_step(parameters.batch, log_uniform(chance, parameters.shortest, parameters.longest))
    return recorder
