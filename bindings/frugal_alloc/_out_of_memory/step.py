"""What the step that failed needs from here to its end, moment by moment, and what would make it fit."""

from __future__ import annotations

import math
from typing import NamedTuple

from .._common.messages import format_bytes as size
from .optimizer_state import OptimizerState
from .scene import BATCH, SMALLER, Advice

_MOST_CHUNKS = 256
_MUCH_LONGER = 1.5
_LEAST_SPARE_BYTES = 16 << 20
_SPARE_PART = 32
_SPARE_PART_OF_LOSS = 10


class Moment(NamedTuple):
    """Of a step that failed, from then on."""

    fixed_bytes: int
    growing_bytes: float  # with the batch

    @property
    def bytes(self) -> float:
        return self.fixed_bytes + self.growing_bytes


class Step(NamedTuple):
    """One whose batch, or whose model, does not fit.

    Attributes:
        batch: Samples; 1 or less: it is not known, or cannot be divided.
        moments: To its end: the forward's, those of the backward's layers, and last the optimizer's step. What is fixed
            has what optimizers keep from their first step on.
        optimizer: The largest.
        room_bytes: That tensors may have in all.
        loss_bytes: Of the logits that are made, or of which the loss is, and of what loss and backward make of them.
        layer_bytes: Of the largest parameter, whose gradient is made by parts where a loss is.
        trained_bytes: Of all parameters that are, which is what their gradients take, too.
        of_loader: Of its batch: the entries of the data set, its length where it has samples of many, and the usual
            length; 0: not known.
        lasting_bytes: Of what tensors of no pass have, with the gradients and what optimizers keep and make.
        is_seen: An earlier step has shown what grows, and nothing else; else a larger batch may fit, too.
    """

    batch: int
    moments: tuple[Moment, ...]
    optimizer: OptimizerState
    room_bytes: int
    loss_bytes: int = 0
    layer_bytes: int = 0
    trained_bytes: int = 0
    of_loader: tuple[int, int, int] = (0, 0, 0)
    lasting_bytes: int = 0
    is_seen: bool = False

    @property
    def peak(self) -> Moment:
        return max(self.moments, key=lambda moment: moment.bytes)

    @property
    def missing_bytes(self) -> int:
        """By so much all of it does not fit."""
        return int(self.peak.bytes) - self.room_bytes

    @property
    def least_bytes(self) -> int:
        """That it needs with no sample."""
        return max(moment.fixed_bytes for moment in self.moments)

    @property
    def usable_bytes(self) -> int:
        return self.room_bytes - (self.room_bytes // _SPARE_PART if self.is_seen else spare_bytes(self.room_bytes))

    def advice(self) -> list[Advice]:
        """The changes that would be enough, the one that changes least first."""
        changes = (
            self._smaller_batch(),
            self._shorter_samples(),
            self._chunked_loss(),
            self._smaller_optimizer(),
            self._checkpoints(),
        )
        return [change for change in changes if change is not None]

    @property
    def without_samples(self) -> str:
        """Says that no batch fits; "": one may."""
        missing = self.lasting_bytes - self.room_bytes
        if missing <= 0 or not self.trained_bytes:
            return ""
        name, state = self.optimizer.name, self.optimizer.bytes + self.optimizer.temporary_bytes
        parts = [f"weights that are trained {size(self.trained_bytes)}", f"gradients {size(self.trained_bytes)}"]
        parts += [f"{name} {size(state)}"] if state else []
        return (
            f"no batch fits: without any sample the step needs {size(self.lasting_bytes)} ({', '.join(parts)}), which "
            f"is {size(missing)} more than there is: train fewer weights (LoRA), keep them in torch.bfloat16, or "
            "offload what the optimizer keeps"
        )

    def _fitting_part(self) -> float:
        """Of what grows; 0: not even none of it fits."""
        part = 1.0
        for moment in self.moments:
            # What a loss makes of it is an estimate.
            at_peak = 0 if self.is_seen or moment != self.peak else self.loss_bytes // _SPARE_PART_OF_LOSS
            room = self.usable_bytes - moment.fixed_bytes
            if room < 0:
                return 0.0
            if moment.growing_bytes:
                part = min(part, room / (moment.growing_bytes + at_peak))
        return part

    def _smaller_batch(self) -> Advice | None:
        entries = self.of_loader[0]
        # A loader's entry may be several rows, as a pair is.
        batch = entries if entries and self.batch % entries == 0 else self.batch
        fits = math.floor(self._fitting_part() * batch)
        if not 0 < fits < batch:
            return None
        growing = int(self.peak.growing_bytes)
        freed = growing * (batch - fits) // batch
        more = "" if self.is_seen else ", and maybe a larger one"
        text = (
            f"a batch of {fits} fits{more}; this one is of {batch}: {size(growing)} grow with it, "
            f"{size(freed)} of them go (accumulate gradients over {math.ceil(batch / fits)} such batches to "
            "train as with this one)"
        )
        return Advice(text, None, None, freed, BATCH)

    def _shorter_samples(self) -> Advice | None:
        """Where this batch's are longer than others'."""
        _, length, usual = self.of_loader
        fits = math.floor(self._fitting_part() * length)
        if length <= _MUCH_LONGER * usual or not usual <= fits < length:
            return None
        text = (
            f"samples of at most {fits}: the longest of this batch has {length}, the usual one {usual} (cut it, or put "
            "samples of similar lengths into a batch)"
        )
        return Advice(text, None, None, int(self.peak.growing_bytes) * (length - fits) // length, BATCH)

    def _chunked_loss(self) -> Advice | None:
        room = self.usable_bytes - int(self.peak.bytes + self.layer_bytes - self.loss_bytes)
        if not self.loss_bytes or room <= 0:
            return None
        chunks = 1 << math.ceil(math.log2(self.loss_bytes / room))
        if not 1 < chunks <= _MOST_CHUNKS:
            return None
        freed = self.loss_bytes * (chunks - 1) // chunks
        text = (
            f"the loss in {chunks} chunks of the rows, each with the last layer in one function that is called by "
            f"torch.utils.checkpoint.checkpoint: logits, and what loss and backward make of them, take "
            f"{size(self.loss_bytes)}, of which {size(freed)} go"
        )
        return Advice(text, None, None, freed, SMALLER)

    def _checkpoints(self) -> Advice | None:
        """Where a batch cannot be divided: what the forward keeps is computed anew in backward."""
        kept = int(self.peak.growing_bytes) - self.loss_bytes
        if self.batch > 1 or 2 * self.missing_bytes > kept or self.moments[-1].bytes > self.usable_bytes:
            return None
        text = (
            f"checkpoint the layers (torch.utils.checkpoint.checkpoint, use_reentrant=False): {size(kept)} are kept "
            "for backward, of which they keep their inputs alone; each runs twice"
        )
        return Advice(text, None, None, kept // 2, SMALLER)

    def _smaller_optimizer(self) -> Advice | None:
        """Where it is the optimizer's step for which there is no room."""
        _, kept, _, temporary = self.optimizer
        beside = int(self.moments[-1].bytes) - temporary
        if beside + temporary <= self.room_bytes or not kept:
            return None
        if temporary and beside <= self.usable_bytes:
            text = (
                f"{self.optimizer.name}(..., foreach=False) updates one parameter after the other: "
                f"{size(temporary)} for all of them at once go"
            )
            return Advice(text, None, None, temporary, SMALLER)
        if beside - kept > self.usable_bytes:
            return None
        import torch

        text = (
            f"{self.optimizer.name} keeps {size(kept)} beside the parameters: "
            + ("torch.optim.Adafactor keeps next to nothing, " if hasattr(torch.optim, "Adafactor") else "")
            + "torch.optim.SGD without momentum nothing"
        )
        return Advice(text, None, None, kept + temporary, SMALLER)


def spare_bytes(room_bytes: int) -> int:
    """Of a room what is not counted on: the rests of pages, and workspaces of libraries that come with another size."""
    return max(_LEAST_SPARE_BYTES, room_bytes // _SPARE_PART)
