"""Optimizer offload: the optimizer's state lives on the host and comes to the GPU for its step alone.

Activations and optimizer state take turns in the same memory, in tensors of very different sizes.
"""

from __future__ import annotations

import dataclasses
import random

from .distributions import log_uniform
from .recorder import Recorder
from .transformer import Shape, Transformer

_MODEL = Shape(layers=20, hidden=1_280, heads=20, vocabulary=16_000)


@dataclasses.dataclass(frozen=True)
class Parameters:
    steps: int = 24
    warm_up_steps: int = 6
    micro_batches: int = 1
    batch: int = 6
    shortest: int = 128
    longest: int = 1_024
    # The state comes in buckets of so many tensors; so many buckets are there at a time.
    bucket: int = 24
    buckets_ahead: int = 4
    model: Shape = _MODEL


def generate(chance: random.Random, parameters: Parameters) -> Recorder:
    recorder = Recorder()
    model = Transformer(recorder, parameters.model)
    sizes = [recorder.size_of(weight) for weight in model.weights]
    for step in recorder.rounds(parameters.steps, parameters.warm_up_steps):
        for _ in range(parameters.micro_batches):
            model.forward_backward(parameters.batch, log_uniform(chance, parameters.shortest, parameters.longest))
        # Every other step all of the state is there at once.
        if step % 2:
            model.make_moments()
            model.update()
            model.drop_moments()
        else:
            _step_by_buckets(recorder, parameters, sizes, model.gradients)
    return recorder


def _step_by_buckets(recorder: Recorder, parameters: Parameters, sizes: list[int], gradients: list[int]) -> None:
    buckets: list[list[int]] = []
    for first in range(0, len(sizes), parameters.bucket):
        # One flat buffer for each of the two moments, and the master weights.
        flat = sum(sizes[first : first + parameters.bucket])
        buckets.append([recorder.allocate(flat) for _ in range(3)])
        if len(buckets) > parameters.buckets_ahead:
            recorder.free_all(buckets.pop(0))
        for gradient in gradients[: parameters.bucket]:
            recorder.temporary(recorder.size_of(gradient))
            recorder.free(gradient)
        del gradients[: parameters.bucket]
    for bucket in buckets:
        recorder.free_all(bucket)
