"""Reckons what a step of training that failed needs, from its frames, its graph, and steps that have run before."""

from __future__ import annotations

from typing import Any

from .. import _tracking
from .._heap.live_tensors import is_on, is_parameter, is_tensor
from .._tracking.timeline import OF_LOADER
from . import forward, gradients, logits, optimizer_state, ownership, what_runs
from .forward import Recorded
from .gradients import Stay
from .optimizer_state import OptimizerState, bytes_of
from .scene import Scene
from .step import Moment, Step
from .what_runs import Running, arguments, frame_of_model, tensors_of

# More than so many times what an earlier step lets expect is there: it does not grow with the batch alone.
_MOST_OF_SEEN = 1.1
# In backward: of what a layer made, and of what it was given.
_GRADIENTS_AT_WORK = 2
# Tensors that a node's backward makes. Others make one, and the next makes as much before that goes.
_MADE_AT_ONCE = {"LogSoftmaxBackward0": 1, "SoftmaxBackward0": 1, "NllLossBackward0": 1, "PowBackward0": 3}
# The largest that PyTorch has cuBLAS work in (on an H100): for good, or since torch 2.15 in each call anew.
_WORKSPACE_BYTES = 32 << 20
# It matters where it is more than this part of what an earlier step shows.
_WORKSPACE_PART = 9


def look(scene: Scene, saved_bytes: int, largest_saved: int, old_bytes: int = 0) -> Step | None:
    """At a step of training, or one that would be one; None: none is under way.

    Args:
        scene: Of the error.
        saved_bytes: By autograd for this step's backward, and held by nothing else.
        largest_saved: The bytes of the largest of these.
        old_bytes: Saved likewise, for no backward of this step.
    """
    running = what_runs.look(scene)
    if running is None:
        return None
    facts, gpu, trained, batch = scene.facts, scene.facts.gpu, running.trained, running.batch
    weights = {one.untyped_storage()._cdata for one in trained}
    held = 0 if batch < 2 else _held(scene, batch, bool(running.modules), weights)
    recorded = growing = max(0, saved_bytes) + held
    passing = {id(one) for frame in scene.frames if not frame.is_users for one in tensors_of(frame)}
    lasting = ownership.held_for_long(gpu, batch, passing)
    if running.is_backward:
        growing = max(growing, facts.allocated_bytes - lasting - old_bytes)
    states = [optimizer_state.of(optimizer, gpu) for optimizer in scene.optimizers]
    largest = max(states, key=lambda state: state.bytes, default=optimizer_state.NOTHING)
    there = sum(bytes_of(one.grad) for one in trained if one.grad is not None and is_on(one.grad, gpu))
    to_come = sum(state.to_come for state in states)
    now = Moment(facts.allocated_bytes - growing - there + to_come, growing)
    at_end = running.trained_bytes + largest.temporary_bytes
    moments, loss = _moments(scene, running, now, there, recorded, largest_saved)
    moments.append(Moment(now.fixed_bytes + at_end, held))
    room = facts.allocated_bytes + facts.requested_bytes - facts.missing_bytes
    lasting += to_come - there + at_end
    of_weights = running.layer_bytes, running.trained_bytes
    step = Step(batch, tuple(moments), largest, room, loss, *of_weights, _of_loader(batch), lasting)
    at_work = facts.requested_bytes if running.grows else 0
    seen = None if running.is_stepping else _as_seen(scene, step, states, trained, recorded + at_work)
    return seen or step


def _moments(
    scene: Scene, running: Running, now: Moment, there: int, recorded: int, largest_saved: int
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
    if loss:
        # The gradient of the matrix that makes the logits comes while they are there.
        return [Moment(fixed + max(there, running.layer_bytes), growing + at_work + to_come)], loss
    if running.modules:
        return _moments_of_pass(scene, running, Moment(fixed, growing), at_work), 0
    if running.is_backward:
        # Layers that are still to come may make more at once.
        later = recorded + _GRADIENTS_AT_WORK * largest_saved
        at_once = at_work * _MADE_AT_ONCE.get(running.node, 2)
        of_graphs = running.graphs * growing
        return [Moment(fixed + there, growing + at_once + of_graphs), Moment(fixed + there, later)], 0
    # What a loss makes of the results, and backward of both.
    after = (forward.AFTER_FORWARD - 1) * max(requested, largest_saved) if running.grows else 0
    return [Moment(fixed + there, growing + at_work + after)], 0


def _of_loader(batch: int) -> tuple[int, int, int]:
    tracker = _tracking.current()
    if tracker is None or tracker.loaders_batch != batch:
        return 0, 0, 0
    batches = tracker.batches
    return batches.entries, next(iter(batches.current[1:2]), 0), batches.usual_length


def _moments_of_pass(scene: Scene, running: Running, now: Moment, at_work: int) -> list[Moment]:
    """Of the forward's end and the backward, as far as the layers to come tell.

    Args:
        scene: Of the error.
        running: What runs, modules among it.
        now: What there is, without gradients.
        at_work: What is asked for, if it grows with the batch.
    """
    modules, all_gradients, stays = running.modules, running.trained_bytes, gradients.stay(scene.frames)
    earlier = 0 if stays is Stay.GONE else all_gradients
    inputs, so_far = _inputs_of_model(scene, modules), _recorded(scene, modules)
    coming = forward.to_come(modules, so_far)
    of_logits = sum(logits.outputs_to_come(scene, modules, coming))
    fixed, growing = now
    moments = []
    for to_run, there in ((coming, growing + at_work), ([*coming, modules[0]], growing)):
        stages = forward.course(modules, inputs, so_far, to_run, there)
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
    there_bytes = sum(bytes_of(one) for one in trained if one.grad is not None)
    held = sum(one.bytes for one in peak.sizes.values() if one.rows % size == 0)
    fixed = max(0, peak.left_bytes - step.trained_bytes - held)
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
        Moment(fixed + step.trained_bytes + step.optimizer.temporary_bytes, at_end.growing_bytes),
    )
    return step._replace(moments=moments, is_seen=not has_workspace)


def _inputs_of_model(scene: Scene, modules: list[Any]) -> list[Any]:
    return [one for one in arguments(frame_of_model(scene, modules)) if is_tensor(one) and one.dim()]


def _recorded(scene: Scene, modules: list[Any]) -> Recorded:
    """What the graph tells of the forward that runs."""
    frames = scene.frames[: scene.frames.index(frame_of_model(scene, modules)) + 1]
    return forward.recorded((tensor for frame in frames for tensor in tensors_of(frame)), modules[-1])


def _held(scene: Scene, batch: int, in_model: bool, parameters: set[int]) -> int:
    """By the frames, of what has the batch's size: within the model also of what has a multiple of it."""
    sizes: dict[int, int] = {}
    for frame in scene.frames:
        for value in tensors_of(frame):
            if not is_on(value, scene.facts.gpu) or value.dim() < 1:
                continue
            rows = value.shape[0]
            if (rows == batch or (in_model and not frame.is_users and rows and rows % batch == 0)) and value.is_cuda:
                storage = value.untyped_storage()
                if storage._cdata not in parameters:
                    sizes[storage._cdata] = storage.nbytes()
    return sum(sizes.values())
