"""Training and evaluation in turns: two phases of different shapes, with outputs collected and a checkpoint between."""

from __future__ import annotations

import dataclasses
import random

from .distributions import log_uniform
from .recorder import Recorder
from .transformer import Shape, Transformer

_MODEL = Shape(layers=16, hidden=1_024, heads=16, vocabulary=24_000)


@dataclasses.dataclass(frozen=True)
class Parameters:
    epochs: int = 6
    warm_up_epochs: int = 2
    train_steps: int = 3
    evaluate_steps: int = 10
    train_batch: int = 8
    train_length: int = 512
    evaluate_batch: int = 24
    shortest: int = 64
    longest: int = 700
    # Of an evaluation's logits, the part that is kept until its end.
    kept_part: float = 0.05
    model: Shape = _MODEL


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder()
    model = Transformer(recorder, parameters.model)
    for _ in recorder.rounds(parameters.epochs, parameters.warm_up_epochs):
        for _ in range(parameters.train_steps):
            # The sampler drops some padding: lengths are close to each other, not equal.
            model.train_step(parameters.train_batch, parameters.train_length - chance.randint(0, 48))
        recorder.free_all(model.gradients)
        _evaluate(recorder, chance, parameters, model)
        _checkpoint(recorder, model)
    return recorder


def _evaluate(recorder: Recorder, chance: random.Random, parameters: Parameters, model: Transformer) -> None:
    outputs = []
    for _ in range(parameters.evaluate_steps):
        logits = model.evaluate(parameters.evaluate_batch, log_uniform(chance, parameters.shortest, parameters.longest))
        outputs.append(recorder.allocate(round(recorder.size_of(logits) * parameters.kept_part)))
        recorder.temporary(512)
        recorder.free(logits)
    together = recorder.allocate(sum(recorder.size_of(output) for output in outputs))
    recorder.free_all(outputs)
    recorder.free(together)


def _checkpoint(recorder: Recorder, model: Transformer) -> None:
    """A second copy of the weights, tensor by tensor, dropped once it is written."""
    copies = [recorder.allocate(recorder.size_of(weight)) for weight in model.weights]
    recorder.free_all(copies)
