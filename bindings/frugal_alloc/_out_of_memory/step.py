"""What the step that failed needs from here to its end, and how much of it grows with the batch."""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

from .. import _tracking
from .._common.messages import format_bytes as size
from .._heap.live_tensors import is_on, is_parameter, is_tensor
from .._program.liveness import Flow
from .._tracking.timeline import OF_LOADER, shape_of
from .._tracking.trained import parameters_of
from . import forward, gradients, logits, optimizer_state, ownership
from .forward import Recorded
from .gradients import Stay
from .optimizer_state import OptimizerState, bytes_of
from .scene import BATCH, SMALLER, Advice, RunningFrame, Scene, statement

_MOST_CHUNKS = 256
_MUCH_LONGER = 1.5
# Two texts are not so long.
_LEAST_EDGES = 1 << 14
# More than so many times what an earlier step lets expect is there: it does not grow with the batch alone.
_MOST_OF_SEEN = 1.1
_LEAST_SPARE_BYTES = 16 << 20
_SPARE_PART = 32
_SPARE_PART_OF_LOSS = 10
# Functions that checkpoints run in backward.
_RECOMPUTING = frozenset(("backward", "unpack_hook", "recompute_fn"))
# In backward: of what a layer made, and of what it was given.
_GRADIENTS_AT_WORK = 2
# Tensors that a node's backward makes. Others make one, and the next makes as much before that goes.
_MADE_AT_ONCE = {"LogSoftmaxBackward0": 1, "SoftmaxBackward0": 1, "NllLossBackward0": 1, "PowBackward0": 3}
# The largest that PyTorch has cuBLAS work in (on an H100): for good, or since torch 2.15 in each call anew.
_WORKSPACE_BYTES = 32 << 20
# It matters where it is more than this part of what an earlier step shows.
_WORKSPACE_PART = 9


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
            "samples of like lengths into a batch)"
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


def look(scene: Scene, saved_bytes: int, largest_saved: int, old_bytes: int = 0) -> Step | None:
    """At a step of training, or one that would be one; None: none is under way.

    Args:
        scene: Of the error.
        saved_bytes: By autograd for this step's backward, and held by nothing else.
        largest_saved: The bytes of the largest of these.
        old_bytes: Saved likewise, for no backward of this step.
    """
    running = _what_runs(scene)
    if running is None:
        return None
    facts, gpu, trained, batch = scene.facts, scene.facts.gpu, running.trained, running.batch
    weights = {one.untyped_storage()._cdata for one in trained}
    held = 0 if batch < 2 else _held(scene, batch, bool(running.modules), weights)
    recorded = growing = max(0, saved_bytes) + held
    passing = {id(one) for frame in scene.frames if not frame.is_users for one in _tensors(frame)}
    lasting = ownership.held_for_long(gpu, batch, passing)
    if running.is_backward:
        growing = max(growing, facts.allocated_bytes - lasting - old_bytes)
    states = [optimizer_state.of(optimizer, gpu) for optimizer in scene.optimizers]
    largest = max(states, key=lambda state: state.bytes, default=optimizer_state.NOTHING)
    there = sum(bytes_of(one.grad) for one in trained if one.grad is not None and is_on(one.grad, gpu))
    to_come = sum(state.to_come for state in states)
    now = Moment(facts.allocated_bytes - growing - there + to_come, growing)
    at_end = sum(map(bytes_of, trained)) + largest.temporary_bytes
    moments, loss = _moments(scene, running, now, there, recorded, largest_saved)
    moments.append(Moment(now.fixed_bytes + at_end, held))
    room = facts.allocated_bytes + facts.requested_bytes - facts.missing_bytes
    layer, lasting = max(map(bytes_of, trained), default=0), lasting - there + to_come + at_end
    of_loader, trained_bytes = _of_loader(batch), sum(map(bytes_of, trained))
    step = Step(batch, tuple(moments), largest, room, loss, layer, trained_bytes, of_loader, lasting)
    at_work = facts.requested_bytes if running.grows else 0
    seen = None if running.is_stepping else _as_seen(scene, step, states, trained, recorded + at_work)
    return seen or step


class _Running(NamedTuple):
    """What runs of a step."""

    is_stepping: bool  # an optimizer
    is_backward: bool
    modules: list[Any]  # whose forward runs, innermost first
    trained: list[Any]  # parameters on the GPU
    batch: int
    grows: bool  # what is asked for, with the batch
    node: str  # autograd's, which asks


def _what_runs(scene: Scene) -> _Running | None:
    import torch

    facts = scene.facts
    is_stepping = any(issubclass(type(frame.values.get("self")), torch.optim.Optimizer) for frame in scene.frames)
    is_backward = any(
        frame.function == "_engine_run_backward" or (frame.code.co_name in _RECOMPUTING and _is_checkpoint(frame))
        for frame in scene.frames
    )
    running = running_modules(scene.frames)
    modules = [] if is_backward else running
    if not (is_stepping or is_backward or records(scene)):
        return None
    trained = [parameter for optimizer in scene.optimizers for parameter in parameters_of(optimizer)]
    trained = [*{id(one): one for one in (*trained, *(running[-1].parameters() if running else ()))}.values()]
    trained = [one for one in trained if is_on(one, facts.gpu) and one.requires_grad]
    batch = batch_of(scene, running)
    of_model = is_stepping or facts.requested_bytes in map(bytes_of, trained)
    grows = not of_model and batch > 0 and facts.requested_bytes % batch == 0
    node = scene.library.site(facts.site).node if facts.site > 0 else ""
    return _Running(is_stepping, is_backward, modules, trained, batch, grows, node)


def _is_checkpoint(frame: RunningFrame) -> bool:
    return frame.file.endswith(os.path.join("torch", "utils", "checkpoint.py"))


def _moments(
    scene: Scene, running: _Running, now: Moment, there: int, recorded: int, largest_saved: int
) -> tuple[list[Moment], int]:
    """Those before the optimizer's step, and the bytes of logits and what a loss makes of them.

    Args:
        scene: Of the error.
        running: What runs.
        now: What there is, without gradients.
        there: The bytes of gradients.
        recorded: Of what grows now, that the graph or frames hold.
        largest_saved: Of a tensor in the graph.
    """
    requested, (fixed, growing) = scene.facts.requested_bytes, now
    if running.modules and not running.grows:
        fixed += requested
    at_work = requested if running.grows else 0
    loss, to_come = logits.of_loss(scene, running.modules, running.is_backward, running.node)
    all_gradients = sum(map(bytes_of, running.trained))
    if loss:
        # The gradient of the matrix that makes the logits comes while they are there.
        layer = max(map(bytes_of, running.trained), default=0)
        return [Moment(fixed + max(there, layer), growing + at_work + to_come)], loss
    if running.modules:
        stays = gradients.stay(scene.frames)
        of_pass = _moments_of_pass(scene, running.modules, Moment(fixed, growing), at_work, all_gradients, stays)
        return of_pass, 0
    if running.is_backward:
        # Layers that are still to come may make more at once.
        later = recorded + _GRADIENTS_AT_WORK * largest_saved
        at_once = at_work * _MADE_AT_ONCE.get(running.node, 2)
        return [Moment(fixed + there, growing + at_once), Moment(fixed + there, later)], 0
    # What a loss makes of the results, and backward of both.
    after = (forward.AFTER_FORWARD - 1) * max(requested, largest_saved) if running.grows else 0
    return [Moment(fixed + there, growing + at_work + after)], 0


def _of_loader(batch: int) -> tuple[int, int, int]:
    tracker = _tracking.current()
    if tracker is None or tracker.loaders_batch != batch:
        return 0, 0, 0
    batches = tracker.batches
    return batches.entries, next(iter(batches.current[1:2]), 0), batches.usual_length


def _moments_of_pass(
    scene: Scene, modules: list[Any], now: Moment, at_work: int, all_gradients: int, stays: Stay
) -> list[Moment]:
    """Of the forward's end and the backward, as far as the layers to come tell.

    Args:
        scene: Of the error.
        modules: That run.
        now: What there is, without gradients.
        at_work: What is asked for, if it grows with the batch.
        all_gradients: The bytes of all parameters'.
        stays: How long earlier ones are there.
    """
    inputs, so_far = _inputs_of_model(scene, modules), _recorded(scene, modules)
    coming = forward.to_come(modules, so_far)
    of_logits = sum(logits.outputs_to_come(scene, modules, coming))
    fixed, growing = now
    moments = []
    for to_run, there in ((coming, growing + at_work), ([*coming, modules[0]], growing)):
        stages = forward.course(modules, inputs, so_far, to_run, there)
        earlier = 0 if stays is Stay.GONE else all_gradients
        moments.append(Moment(fixed + earlier, stages[-1].kept_bytes + of_logits))
        for stage in stages:
            made = all_gradients if stays is Stay.ADDED else stage.gradient_bytes
            moments.append(Moment(fixed + made, stage.kept_bytes + stage.at_work_bytes))
    return moments


def _as_seen(scene: Scene, step: Step, states: list[OptimizerState], trained: list[Any], growing: int) -> Step | None:
    """By an earlier forward with its backward, of the largest smaller batch; None where none is comparable.

    Args:
        scene: Of the error.
        step: What is known without.
        states: Of the optimizers.
        trained: All parameters that are.
        growing: What is there by now and grows with the batch, with the request if that does.
    """
    tracker, requested = _tracking.current(), scene.facts.requested_bytes
    # What grows with the square of the batch shows too little of itself in a smaller one.
    if tracker is None or step.batch < 1 or requested in {step.batch**2 * size for size in (1, 2, 4, 8)}:
        return None
    now = {
        (frame.file, frame.code.co_firstlineno, name): value.shape[0]
        for frame in scene.frames
        for name, value in frame.values.items()
        if is_tensor(value) and value.dim() and not is_parameter(value)
    }
    now[OF_LOADER] = tracker.loaders_batch
    known = [(size, peak) for peak in tracker.batches.peaks if 0 < (size := peak.batch(now, step.batch)) < step.batch]
    if not known:
        return None
    size, peak = max(known, key=lambda one: (one[0], one[1].bytes))
    if any(one.rows == one.columns == size for one in peak.sizes.values()):
        return None
    trained_bytes = sum(map(bytes_of, trained))
    there_bytes = sum(bytes_of(one) for one in trained if one.grad is not None)
    held = sum(one.bytes for one in peak.sizes.values() if one.rows % size == 0)
    fixed = max(0, peak.left_bytes - trained_bytes - held)
    shown = peak.bytes - fixed
    # It would be taken for what grows with the batch.
    has_workspace = (
        fixed < _WORKSPACE_BYTES <= peak.bytes - peak.begun_bytes and shown < _WORKSPACE_PART * _WORKSPACE_BYTES
    )
    growth, kept = (one * step.batch // size for one in (shown, peak.begun_bytes - fixed))
    if growing > _MOST_OF_SEEN * growth:
        return None
    state = 0 if peak.had_stepped else sum(one.bytes for one in states)
    fixed += max(state, tracker.batches.left_bytes - peak.left_bytes)
    at_end = step.moments[-1]
    moments = (
        Moment(fixed, max(growth, growing)),
        Moment(fixed + there_bytes, kept),
        Moment(fixed + trained_bytes + step.optimizer.temporary_bytes, at_end.growing_bytes),
    )
    return step._replace(moments=moments, is_seen=not has_workspace)


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
    current = 0 if tracker is None else tracker.loaders_batch
    if modules:
        arguments = _arguments(_frame_of(scene, modules))
        if any(map(_is_edges, arguments)):  # the rows of the others are nodes
            return 0
        shapes = [shape_of(value, torch.Tensor) for value in arguments]
        of_model = next((one[0] for one in shapes if one), 0)
        return current if current and of_model % current == 0 else of_model
    if current:
        return current
    tensors = [value for frame in scene.users_frames for value in frame.values.values() if is_tensor(value)]
    tensors = [one for one in tensors if one.dim() > 1 and is_on(one, scene.facts.gpu) and not is_parameter(one)]
    results = [one for one in tensors if one.grad_fn is not None]
    return min((one.shape[0] for one in results or tensors), default=0)


def _is_edges(value: Any) -> bool:
    """Whether it is like the edges of a graph: from and to, of many."""
    is_pairs = is_tensor(value) and value.dim() == 2 and value.shape[0] == 2 and not value.is_floating_point()
    return is_pairs and value.shape[1] >= _LEAST_EDGES


def _frame_of(scene: Scene, modules: list[Any]) -> RunningFrame:
    """Of the outermost module's forward."""
    return next(
        one for one in reversed(scene.frames) if one.values.get("self") is modules[-1] and "forward" in one.function
    )


def _arguments(frame: RunningFrame) -> list[Any]:
    given = [value for name, value in frame.values.items() if name in frame.arguments and name != "self"]
    return [*given, *frame.values.get("kwargs", {}).values()]


def _inputs_of_model(scene: Scene, modules: list[Any]) -> list[Any]:
    return [one for one in _arguments(_frame_of(scene, modules)) if is_tensor(one) and one.dim()]


def _recorded(scene: Scene, modules: list[Any]) -> Recorded:
    """What the graph tells of the forward that runs."""
    frames = scene.frames[: scene.frames.index(_frame_of(scene, modules)) + 1]
    return forward.recorded((tensor for frame in frames for tensor in _tensors(frame)), modules[-1])


def _tensors(frame: RunningFrame) -> list[Any]:
    """That its variables hold, or lists in them."""
    values = [*frame.values.values()]
    values += [inner for value in values if type(value) in (list, tuple) for inner in value]
    return [value for value in values if is_tensor(value)]


def _held(scene: Scene, batch: int, in_model: bool, parameters: set[int]) -> int:
    """By the frames, of what has the batch's size: within the model also of what has a multiple of it."""
    sizes: dict[int, int] = {}
    for frame in scene.frames:
        for value in _tensors(frame):
            if not is_on(value, scene.facts.gpu) or value.dim() < 1:
                continue
            rows = value.shape[0]
            if (rows == batch or (in_model and not frame.is_users and rows and rows % batch == 0)) and value.is_cuda:
                storage = value.untyped_storage()
                if storage._cdata not in parameters:
                    sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())
