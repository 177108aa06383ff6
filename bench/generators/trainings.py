"""Trainings of a GPT-like transformer: what they ask of the allocator, operator by operator."""

from __future__ import annotations

import dataclasses
import random

from .distributions import log_uniform
from .recorder import MIB, Recorder

_FLOAT, _HALF = 4, 2
_PARAMETERS_A_BLOCK = 12


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int = 12
    hidden: int = 768
    heads: int = 12
    vocabulary: int = 32_000

    def parameters(self) -> list[int]:
        """Elements of each parameter, in the order in which the model makes them."""
        h = self.hidden
        block = [h, h, 3 * h * h, 3 * h, h * h, h, h, h, 4 * h * h, 4 * h, 4 * h * h, h]
        return [self.vocabulary * h, *(block * self.layers), h, h]


_GPT = Shape(layers=24)


def variable_batches(chance: random.Random, rounds: int = 40, warm_up: int = 10) -> Recorder:
    """Variable-length batches: a transformer is trained on sentences whose length differs from step to step."""
    recorder = Recorder()
    model = Transformer(recorder, Shape())
    for _ in recorder.rounds(rounds, warm_up):
        model.train_step(batch=12, length=log_uniform(chance, 48, 1_024))
    return recorder


def train_evaluate(chance: random.Random, rounds: int = 6, warm_up: int = 2) -> Recorder:
    """Training and evaluation in turns, of different shapes, with outputs collected and a checkpoint between."""
    recorder = Recorder()
    model = Transformer(recorder, Shape(layers=16, hidden=1_024, heads=16, vocabulary=24_000))
    for _ in recorder.rounds(rounds, warm_up):
        for _ in range(3):
            # The sampler drops some padding: lengths are close to each other, not equal.
            model.train_step(batch=8, length=512 - chance.randint(0, 48))
        recorder.free_all(model.gradients)
        _evaluate(recorder, chance, model)
        # The checkpoint: a second copy of the weights, dropped once it is written.
        recorder.free_all(recorder.allocate_all(map(recorder.size_of, model.weights)))
    return recorder


def _evaluate(recorder: Recorder, chance: random.Random, model: Transformer) -> None:
    """Of each batch's logits a 20th is kept until the end."""
    outputs = []
    for _ in range(10):
        logits = model.evaluate(batch=24, length=log_uniform(chance, 64, 700))
        outputs.append(recorder.allocate(round(recorder.size_of(logits) * 0.05)))
        recorder.temporary(512)
        recorder.free(logits)
    together = recorder.allocate(sum(map(recorder.size_of, outputs)))
    recorder.free_all([*outputs, together])


def optimizer_offload(chance: random.Random, rounds: int = 24, warm_up: int = 6) -> Recorder:
    """Optimizer offload: the optimizer's state lives on the host and comes to the GPU for its step alone.

    Activations and optimizer state take turns in the same memory, in tensors of very different sizes.
    """
    recorder = Recorder()
    model = Transformer(recorder, Shape(layers=20, hidden=1_280, heads=20, vocabulary=16_000))
    for step in recorder.rounds(rounds, warm_up):
        model.forward_backward(batch=6, length=log_uniform(chance, 128, 1_024))
        # Every other step all of the state is there at once.
        if step % 2:
            model.make_moments()
            model.update()
            recorder.free_all(model.moments)
        else:
            _step_by_buckets(recorder, model, bucket=24, ahead=4)
    return recorder


def _step_by_buckets(recorder: Recorder, model: Transformer, bucket: int, ahead: int) -> None:
    """The state comes in buckets of so many tensors; so many buckets are there at a time."""
    buckets: list[list[int]] = []
    for first in range(0, len(model.sizes), bucket):
        # One flat buffer for each of the two moments, and the master weights.
        buckets.append(recorder.allocate_all([sum(model.sizes[first : first + bucket])] * 3))
        if len(buckets) > ahead:
            recorder.free_all(buckets.pop(0))
        for gradient in model.gradients[:bucket]:
            recorder.temporary(recorder.size_of(gradient))
            recorder.free(gradient)
        del model.gradients[:bucket]
    for left in buckets:
        recorder.free_all(left)


def fixed_training(
    _: random.Random, rounds: int = 12, streams: int = 1, stream_lag: int = 0, shape: Shape = _GPT
) -> Recorder:
    """A training loop with fixed shapes: after the first iterations, the same calls in the same order.

    Of one stream, or of several, each of which trains a model of its own while the host serves in turn.
    """
    recorder = Recorder(stream_lag)
    models = [Transformer(recorder, shape, stream) for stream in range(streams)]
    for _ in range(rounds):
        for model, (batch, length) in zip(models, ((8, 640), (6, 384), (4, 900), (10, 257)), strict=False):
            model.train_step(batch, length)
        recorder.end_iteration()
    return recorder


class Transformer:
    """One model, trained on one stream with AdamW: single-precision parameters, half-precision activations."""

    def __init__(self, recorder: Recorder, shape: Shape, stream: int = 0) -> None:
        self._recorder = recorder
        self._shape = shape
        self._stream = stream
        self.sizes = [count * _FLOAT for count in shape.parameters()]
        self.weights = self._new(*self.sizes)
        self.gradients: list[int] = []
        self.moments: list[int] = []

    def train_step(self, batch: int, length: int) -> None:
        """Forward, backward and the optimizer's step; gradients are dropped before the next, as zero_grad() does."""
        self.forward_backward(batch, length)
        self.make_moments()
        self.update()

    def forward_backward(self, batch: int, length: int) -> None:
        recorder, tokens = self._recorder, batch * length
        wide = tokens * self._shape.hidden * _HALF
        recorder.free_all(self.gradients)
        *inputs, first, second = self._new(tokens * 8, tokens * 8, wide, wide)
        blocks = [self._forward_block(tokens, keep=True) for _ in range(self._shape.layers)]
        loss = self._head(tokens)
        flowing = self._backward(blocks, wide)
        recorder.free_all([flowing, second, first, *inputs, *loss])

    def evaluate(self, batch: int, length: int) -> int:
        """Without gradients: activations go as soon as they are used. Returns the logits."""
        tokens = batch * length
        wide = tokens * self._shape.hidden * _HALF
        inputs, stream = self._new(tokens * 8, wide)
        for _ in range(self._shape.layers):
            self._recorder.free_all(self._forward_block(tokens, keep=False))
            stream = self._replace(stream, wide)
        (logits,) = self._new(tokens * self._shape.vocabulary * _HALF)
        self._recorder.free_all([stream, inputs])
        return logits

    def make_moments(self) -> None:
        """The optimizer's state, which AdamW makes in its first step."""
        if not self.moments:
            self.moments = self._new(*(size for size in self.sizes for _ in range(2)))

    def update(self) -> None:
        """AdamW over lists of parameters: temporaries as large as the parameters, two lists at a time."""
        for first in range(0, len(self.sizes), 32):
            sizes = self.sizes[first : first + 32]
            denominators, scaled = self._new(*sizes), self._new(*sizes)
            self._recorder.free_all(scaled)
            self._recorder.free_all(denominators)

    def _new(self, *sizes: int) -> list[int]:
        return self._recorder.allocate_all(sizes, self._stream)

    def _replace(self, old: int, size: int) -> int:
        """What comes out of an operator, whose input goes."""
        (new,) = self._new(size)
        self._recorder.free(old)
        return new

    def _forward_block(self, tokens: int, keep: bool) -> list[int]:
        """Its activations, in their order."""
        wide = tokens * self._shape.hidden * _HALF
        norm = (wide, tokens * _FLOAT, tokens * _FLOAT)
        # A projection, its dropout's mask, and the sum with what went around it.
        projected = (wide, wide // 2, wide)
        # Queries, keys and values, then attention.
        kept = self._new(*norm, 3 * wide, wide, tokens * self._shape.heads * _FLOAT)
        self._recorder.temporary(8 * MIB, self._stream)
        kept += self._new(*projected, *norm, 4 * wide, 4 * wide)
        if not keep:
            self._recorder.free(kept.pop(-2))
        return kept + self._new(*projected)

    def _head(self, tokens: int) -> list[int]:
        logits = tokens * self._shape.vocabulary
        normed, half, single, loss, gradient = self._new(
            tokens * self._shape.hidden * _HALF, logits * _HALF, logits * _FLOAT, _FLOAT, logits * _FLOAT
        )
        self._recorder.free(single)
        (gradient_half,) = self._new(logits * _HALF)
        self._recorder.free_all([gradient, half, gradient_half])
        return [normed, loss]

    def _backward(self, blocks: list[list[int]], wide: int) -> int:
        """Returns the gradient that flows out of the first block."""
        self.gradients += self._new(*self.sizes[-2:])
        (flowing,) = self._new(wide)
        for number in reversed(range(len(blocks))):
            first = 1 + number * _PARAMETERS_A_BLOCK
            flowing = self._backward_block(blocks[number], flowing, wide, self.sizes[first:])
        self.gradients += self._new(self.sizes[0])
        return flowing

    def _backward_block(self, kept: list[int], flowing: int, wide: int, sizes: list[int]) -> int:
        """Returns the gradient that flows on to the block before."""
        widths = {0: 4 * wide, 4: 4 * wide, 8: 3 * wide}
        for step, activation in enumerate(reversed(kept)):
            flowing = self._replace(flowing, widths.get(step, wide))
            self._recorder.free(activation)
            if step % 4 == 3:
                # Of three parameters at a time, of the block's twelve.
                done = 3 * (step // 4)
                self.gradients += self._new(*sizes[done : done + 3])
        return flowing
