"""What the step that failed needs from here to its end, and how much of it grows with the batch."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import _tracking
from .._common.messages import format_bytes as size
from .._program.liveness import Flow
from .._tracking.live_tensors import is_on, is_tensor
from .._tracking.timeline import size_of
from .._tracking.trained import parameters_of
from . import optimizer_state
from .optimizer_state import OptimizerState, bytes_of
from .scene import BATCH, SMALLER, Advice, RunningFrame, Scene, statement

# Logits, what a loss computes of them, their logarithms, and in backward the gradients of both. Of logits in half
# precision autocast has losses compute in single.
_LOGITS_OF_LOSS = 4
_HALF_LOGITS_OF_LOSS = 6
_LOSSES = frozenset(("cross_entropy", "nll_loss", "log_softmax"))
_LEAST_CLASSES = 4096
_SINGLE = 4  # bytes
_MOST_CHUNKS = 256
# What comes after the forward, in tensors as large as the largest at work.
_AFTER_FORWARD = 3
_LEAST_SPARE_BYTES = 16 << 20
_SPARE_PART = 32


class Step(NamedTuple):
    """One whose batch, or whose model, does not fit.

    Attributes:
        batch: Samples; 1 or less: it is not known, or cannot be divided.
        growing_bytes: At the peak, of what grows with the batch.
        kept_bytes: Of these, what the frames still hold when the optimizer steps.
        fixed_bytes: At the peak, of all the rest, with what the optimizers keep from their first step on.
        optimizer: The largest.
        room_bytes: That tensors may have in all.
        loss_bytes: Of the logits that are made, or of which the loss is, and of what loss and backward make of them.
        layer_bytes: Of the largest parameter, whose gradient is made by parts where a loss is.
        is_bound: Layers are to come, which are counted as if each took as much as those before: most take less.
    """

    batch: int
    growing_bytes: int
    kept_bytes: int
    fixed_bytes: int
    optimizer: OptimizerState
    room_bytes: int
    loss_bytes: int = 0
    layer_bytes: int = 0
    is_bound: bool = False

    @property
    def missing_bytes(self) -> int:
        """By so much all of it does not fit."""
        while_stepping = self.optimizer.temporary_bytes + self.kept_bytes
        return self.fixed_bytes + max(self.growing_bytes, while_stepping) - self.room_bytes

    @property
    def usable_bytes(self) -> int:
        return self.room_bytes - spare_bytes(self.room_bytes)

    def advice(self) -> list[Advice]:
        """The changes that would be enough, the one that changes least first."""
        changes = (self._smaller_batch(), self._chunked_loss(), self._smaller_optimizer())
        return [change for change in changes if change is not None]

    def _smaller_batch(self) -> Advice | None:
        room, fits = self.usable_bytes, self.batch
        for growing, fixed in ((self.growing_bytes, 0), (self.kept_bytes, self.optimizer.temporary_bytes)):
            if growing:
                fits = min(fits, math.floor((room - self.fixed_bytes - fixed) * self.batch / growing))
            elif self.fixed_bytes + fixed > room:
                return None
        if not 0 < fits < self.batch:
            return None
        freed = self.growing_bytes * (self.batch - fits) // self.batch
        more = ", and maybe a larger one" if self.is_bound else ""
        text = (
            f"a batch of {fits} fits{more}; this one is of {self.batch}: {size(self.growing_bytes)} grow with it, "
            f"{size(freed)} of them go (accumulate gradients over {math.ceil(self.batch / fits)} such batches to "
            "train as with this one)"
        )
        return Advice(text, None, None, freed, BATCH)

    def _chunked_loss(self) -> Advice | None:
        room = self.usable_bytes - (self.fixed_bytes + self.layer_bytes + self.growing_bytes - self.loss_bytes)
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

    def _smaller_optimizer(self) -> Advice | None:
        """Where it is the optimizer's step for which there is no room."""
        _, kept, _, temporary = self.optimizer
        beside = self.fixed_bytes + self.kept_bytes
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


def look(scene: Scene, saved_bytes: int, largest_saved: int) -> Step | None:
    """At a step of training, or one that would be one; None: none is under way.

    Args:
        scene: Of the error.
        saved_bytes: By autograd for this step's backward, and held by nothing else.
        largest_saved: The bytes of the largest of these.
    """
    import torch

    facts, gpu = scene.facts, scene.facts.gpu
    optimizers = optimizer_state.living()
    is_stepping = any(issubclass(type(frame.values.get("self")), torch.optim.Optimizer) for frame in scene.frames)
    is_backward = any(frame.function == "_engine_run_backward" for frame in scene.frames)
    modules = [] if is_backward else running_modules(scene.frames)
    if not (is_stepping or is_backward or records(scene)):
        return None
    trained = [parameter for optimizer in optimizers for parameter in parameters_of(optimizer)]
    trained = [*{id(one): one for one in (*trained, *(modules[-1].parameters() if modules else ()))}.values()]
    trained = [one for one in trained if is_on(one, gpu) and one.requires_grad]
    batch = batch_of(scene, modules)
    held = 0 if batch < 2 else _held(scene, batch, bool(modules), {one.untyped_storage()._cdata for one in trained})
    requested = facts.requested_bytes
    growing = max(0, saved_bytes) + held
    fixed = facts.allocated_bytes - growing + sum(bytes_of(one) for one in trained if one.grad is None)
    of_model = is_stepping or requested in map(bytes_of, trained)
    grows = not of_model and batch > 0 and requested % batch == 0
    if grows:
        growing += requested
    elif modules:
        fixed += requested
    loss, to_come = _loss(scene, modules, is_backward)
    if modules:
        growing = max(growing * _part(modules), growing + sum(outputs_to_come(scene, modules)))
    if loss:
        growing += to_come
    elif grows:
        # What a loss makes of the results, and backward of both.
        growing += (_AFTER_FORWARD if modules else _AFTER_FORWARD - 1) * max(requested, largest_saved)
    states = [optimizer_state.of(optimizer, gpu) for optimizer in optimizers]
    fixed += sum(state.to_come for state in states)
    largest = max(states, key=lambda state: state.bytes, default=optimizer_state.NOTHING)
    room = facts.allocated_bytes + requested - facts.missing_bytes
    layer = max(map(bytes_of, trained), default=0)
    return Step(batch, int(growing), held, fixed, largest, room, loss, layer, bool(modules))


def records(scene: Scene) -> bool:
    """Whether what is being made is for a backward, as far as can be seen."""
    import torch

    if not torch.is_grad_enabled():
        return False
    if running_modules(scene.frames):
        return True
    frame = next(iter(scene.users_frames), None)
    if frame is None:
        return False
    # Of a lambda, or without its source, all its variables are looked at.
    now = statement(frame)
    read = set(frame.values) if now is None else Flow(frame.code).read_in_lines(now.first, now.last)
    values = [value for name, value in frame.values.items() if name in read]
    models = [value for value in values if issubclass(type(value), torch.nn.Module)]
    values += [parameter for model in models for parameter in model.parameters()]
    return any(is_tensor(value) and value.requires_grad for value in values)


def running_modules(frames: list[RunningFrame]) -> list[Any]:
    """Those whose forward runs, innermost first, each once."""
    import torch

    running = [frame.values.get("self") for frame in frames if frame.code.co_name == "forward"]
    return [*{id(one): one for one in running if isinstance(one, torch.nn.Module)}.values()]


def batch_of(scene: Scene, modules: list[Any]) -> int:
    """The samples that the outermost of the running modules works on, else those of a loader's or a loss's; 0: it is
    not known."""
    import torch

    tracker = _tracking.current()
    is_known = tracker is not None and tracker.loaders.is_within_pass()
    current = (tracker.batches.current if is_known else None) or 0
    if modules:
        frame = next(
            one for one in reversed(scene.frames) if one.values.get("self") is modules[-1] and "forward" in one.function
        )
        inputs = [value for name, value in frame.values.items() if name in frame.arguments and name != "self"]
        sizes = [size_of(value, torch.Tensor) for value in (*inputs, *frame.values.get("kwargs", {}).values())]
        of_model = next((one for one in sizes if one), 0)
        return current if current and of_model % current == 0 else of_model
    if current:
        return current
    tensors = [value for frame in scene.users_frames for value in frame.values.values() if is_tensor(value)]
    tensors = [one for one in tensors if one.dim() > 1 and is_on(one, scene.facts.gpu) and not _is_parameter(one)]
    results = [one for one in tensors if one.grad_fn is not None]
    return min((one.shape[0] for one in results or tensors), default=0)


def _is_parameter(tensor: Any) -> bool:
    import torch

    return issubclass(type(tensor), torch.nn.Parameter)


def _held(scene: Scene, batch: int, in_model: bool, parameters: set[int]) -> int:
    """By the frames, of what has the batch's size: within the model also of what has a multiple of it."""
    sizes: dict[int, int] = {}
    for frame in scene.frames:
        values = [*frame.values.values()]
        values += [inner for value in values if type(value) in (list, tuple) for inner in value]
        for value in values:
            if not is_tensor(value) or not is_on(value, scene.facts.gpu) or value.dim() < 1:
                continue
            rows = value.shape[0]
            if (rows == batch or (in_model and not frame.is_users and rows and rows % batch == 0)) and value.is_cuda:
                storage = value.untyped_storage()
                if storage._cdata not in parameters:
                    sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())


def _leaves(module: Any) -> list[Any]:
    """The modules that have none within, in their order."""
    return [one for one in module.modules() if not one._modules]


def _part(modules: list[Any]) -> float:
    """By how many times as much the forward takes, as it has come to the module that runs."""
    leaves, to_come = _leaves(modules[-1]), _to_come(modules)
    return len(leaves) / (len(leaves) - len(to_come)) if leaves else 1.0


def _to_come(modules: list[Any]) -> list[Any]:
    """The leaves after the first one within the module that runs."""
    leaves, within = _leaves(modules[-1]), set(map(id, _leaves(modules[0])))
    at = next((index for index, leaf in enumerate(leaves) if id(leaf) in within), len(leaves) - 1)
    return leaves[at + 1 :]


def outputs_to_come(scene: Scene, modules: list[Any]) -> list[int]:
    """The bytes of what linear layers are still to make, which may be larger than what has come before, as logits are;
    of logits, with what a loss makes of them."""
    import torch

    coming = [leaf for leaf in _to_come(modules) if isinstance(leaf, torch.nn.Linear)]
    found = []
    for leaf in coming:
        of_loss = torch.is_grad_enabled() and leaf is coming[-1] and _makes_logits(leaf)
        found.append(_outputs(scene, leaf) * leaf.weight.element_size() * (_LOGITS_OF_LOSS if of_loss else 1))
    return found


def _outputs(scene: Scene, layer: Any) -> int:
    """How many numbers a linear layer makes of what the frames have for it."""
    values = [value for frame in scene.frames for value in frame.values.values() if is_tensor(value)]
    inputs = [value.numel() for value in values if value.dim() > 1 and value.shape[-1] == layer.in_features]
    return max((count // layer.in_features for count in inputs), default=0) * layer.out_features


def _loss(scene: Scene, modules: list[Any], is_backward: bool) -> tuple[int, int]:
    """The bytes of the logits that are being made, or of which a loss is, and of all that loss and backward make of
    them, and how many of these bytes are neither there nor asked for."""
    import torch

    requested = scene.facts.requested_bytes
    loss = next((frame for frame in scene.frames if frame.code.co_name in _LOSSES and not frame.is_users), None)
    if loss is not None and is_tensor(logits := loss.values.get("input")):
        times = _HALF_LOGITS_OF_LOSS if logits.element_size() < _SINGLE else _LOGITS_OF_LOSS
        return times * bytes_of(logits), (times - 2) * bytes_of(logits)
    last = _leaves(modules[-1])[-1:] if modules else []
    if last and modules[0] is last[0] and isinstance(last[0], torch.nn.Linear) and _makes_logits(last[0]):
        is_half = requested < _outputs(scene, last[0]) * _SINGLE
        times = _HALF_LOGITS_OF_LOSS if is_half else _LOGITS_OF_LOSS
        return times * requested, (times - 1) * requested
    results = [value for frame in scene.users_frames for value in frame.values.values() if is_tensor(value)]
    alike = (one for one in results if one.grad_fn is not None and bytes_of(one) == requested)
    if is_backward and any(one.dim() > 1 and one.shape[-1] >= _LEAST_CLASSES for one in alike):
        return _LOGITS_OF_LOSS * requested, requested
    return 0, 0


def _makes_logits(layer: Any) -> bool:
    return layer.out_features > 2 * layer.in_features
