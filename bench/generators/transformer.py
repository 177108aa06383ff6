"""What the training of a GPT-like transformer asks of the allocator, operator by operator."""

from __future__ import annotations

import dataclasses

from .recorder import Recorder

_FLOAT, _HALF = 4, 2


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


@dataclasses.dataclass
class _Activations:
    """Of one block, in the order of the forward pass."""

    kept: list[int]
    tokens: int


class Transformer:
    """One model, trained on one stream with AdamW: single-precision parameters, half-precision activations."""

    def __init__(self, recorder: Recorder, shape: Shape, stream: int = 0) -> None:
        self._recorder = recorder
        self._shape = shape
        self._stream = stream
        self._sizes = [count * _FLOAT for count in shape.parameters()]
        self.weights = [self._new(size) for size in self._sizes]
        self.gradients: list[int] = []
        self.moments: list[int] = []

    def train_step(self, batch: int, length: int) -> None:
        """Forward, backward and the optimizer's step; gradients are dropped before the next, as zero_grad() does."""
        self.forward_backward(batch, length)
        self.make_moments()
        self.update()

    def forward_backward(self, batch: int, length: int) -> None:
        recorder = self._recorder
        recorder.free_all(self.gradients)
        inputs = [self._new(batch * length * 8), self._new(batch * length * 8)]
        tokens = batch * length
        embedded = [self._new(tokens * self._shape.hidden * _HALF) for _ in range(2)]
        blocks = [self._forward_block(tokens, keep=True) for _ in range(self._shape.layers)]
        loss = self._head(tokens)
        self._backward(blocks, embedded)
        recorder.free_all([*inputs, *loss])

    def evaluate(self, batch: int, length: int) -> int:
        """Without gradients: activations go as soon as they are used. Returns the logits."""
        tokens = batch * length
        inputs = self._new(tokens * 8)
        stream = self._new(tokens * self._shape.hidden * _HALF)
        for _ in range(self._shape.layers):
            self._recorder.free_all(self._forward_block(tokens, keep=False).kept)
            following = self._new(tokens * self._shape.hidden * _HALF)
            self._recorder.free(stream)
            stream = following
        logits = self._new(tokens * self._shape.vocabulary * _HALF)
        self._recorder.free_all([stream, inputs])
        return logits

    def make_moments(self) -> None:
        """The optimizer's state, which AdamW makes in its first step."""
        if not self.moments:
            self.moments = [self._new(size) for size in self._sizes for _ in range(2)]

    def drop_moments(self) -> None:
        self._recorder.free_all(self.moments)

    def update(self) -> None:
        """AdamW over lists of parameters: temporaries as large as the parameters, two lists at a time."""
        for first in range(0, len(self._sizes), 32):
            sizes = self._sizes[first : first + 32]
            denominators = [self._new(size) for size in sizes]
            scaled = [self._new(size) for size in sizes]
            self._recorder.free_all(scaled)
            self._recorder.free_all(denominators)

    def _new(self, size: int) -> int:
        return self._recorder.allocate(size, self._stream)

    def _forward_block(self, tokens: int, keep: bool) -> _Activations:
        wide = tokens * self._shape.hidden * _HALF
        statistics = tokens * _FLOAT
        kept = [
            self._new(wide),  # first layer norm
            self._new(statistics),
            self._new(statistics),
            self._new(3 * wide),  # queries, keys and values
            self._new(wide),  # attention
            self._new(tokens * self._shape.heads * _FLOAT),
        ]
        self._recorder.temporary(8 << 20, self._stream)
        kept += [self._new(wide), self._new(wide // 2), self._new(wide)]  # projection, dropout's mask, sum
        kept += [self._new(wide), self._new(statistics), self._new(statistics)]  # second layer norm
        kept += [self._new(4 * wide), self._new(4 * wide)]
        if not keep:
            self._recorder.free(kept.pop(-2))
        kept += [self._new(wide), self._new(wide // 2), self._new(wide)]
        return _Activations(kept, tokens)

    def _head(self, tokens: int) -> list[int]:
        logits = tokens * self._shape.vocabulary
        normed = self._new(tokens * self._shape.hidden * _HALF)
        half = self._new(logits * _HALF)
        single = self._new(logits * _FLOAT)
        loss = self._new(_FLOAT)
        gradient = self._new(logits * _FLOAT)
        self._recorder.free(single)
        gradient_half = self._new(logits * _HALF)
        self._recorder.free_all([gradient, half, gradient_half])
        return [normed, loss]

    def _backward(self, blocks: list[_Activations], embedded: list[int]) -> None:
        recorder = self._recorder
        self.gradients += [self._new(size) for size in self._sizes[-2:]]
        flowing = self._new(blocks[0].tokens * self._shape.hidden * _HALF)
        per_block = 12
        for number in reversed(range(len(blocks))):
            sizes = self._sizes[1 + number * per_block : 1 + (number + 1) * per_block]
            flowing = self._backward_block(blocks[number], flowing, sizes)
        self.gradients.append(self._new(self._sizes[0]))
        recorder.free_all([flowing, *reversed(embedded)])

    def _backward_block(self, block: _Activations, flowing: int, sizes: list[int]) -> int:
        """Returns the gradient that flows on to the block before."""
        recorder = self._recorder
        wide = block.tokens * self._shape.hidden * _HALF
        widths = {0: 4 * wide, 4: 4 * wide, 8: 3 * wide}
        gradient_at = 0
        for step, kept in enumerate(reversed(block.kept)):
            following = self._new(widths.get(step, wide))
            recorder.free(flowing)
            flowing = following
            recorder.free(kept)
            if step % 4 == 3:
                self.gradients += [self._new(size) for size in sizes[gradient_at : gradient_at + 3]]
                gradient_at += 3
        block.kept.clear()
        return flowing
