"""What runs of a step: modules and their batch, the backward, or an optimizer."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from .. import _tracking
from .._heap.live_tensors import is_on, is_parameter, is_tensor
from .._program.liveness import Flow
from .._tracking.timeline import shape_of
from .._tracking.trained import parameters_of
from . import loading
from .optimizer_state import bytes_of
from .scene import RunningFrame, Scene, statement

# Functions that checkpoints run in backward.
_RECOMPUTING = frozenset(("backward", "unpack_hook", "recompute_fn"))
# Of what a backward through a backward has at once.
_OF_SECOND_BACKWARD = 0.25
# Two texts are not so long.
_LEAST_EDGES = 1 << 14


class Running(NamedTuple):
    """What runs of a step."""

    is_stepping: bool  # an optimizer
    is_backward: bool
    modules: list[Any]  # whose forward runs, innermost first
    trained: list[Any]  # parameters on the GPU
    batch: int
    grows: bool  # what is asked for, with the batch
    node: str  # autograd's, which asks
    graphs: float  # how many times what grows now a backward's own graph is to keep

    @property
    def trained_bytes(self) -> int:
        """Of all parameters, which is what their gradients take, too."""
        return sum(map(bytes_of, self.trained))

    @property
    def layer_bytes(self) -> int:
        """Of the largest parameter."""
        return max(map(bytes_of, self.trained), default=0)


def look(scene: Scene) -> Running | None:
    import torch

    facts = scene.facts
    is_stepping = any(issubclass(type(frame.values.get("self")), torch.optim.Optimizer) for frame in scene.frames)
    is_backward = any(
        frame.function == "_engine_run_backward" or (frame.code.co_name in _RECOMPUTING and _is_checkpoint(frame))
        for frame in scene.frames
    )
    running = running_modules(scene.frames)
    modules = [] if is_backward else running
    if loading.running(scene) or not (is_stepping or is_backward or records(scene)):
        return None
    trained = [parameter for optimizer in scene.optimizers for parameter in parameters_of(optimizer)]
    trained = [*{id(one): one for one in (*trained, *(running[-1].parameters() if running else ()))}.values()]
    trained = [one for one in trained if is_on(one, facts.gpu) and one.requires_grad]
    batch = batch_of(scene, running)
    of_model = is_stepping or facts.requested_bytes in map(bytes_of, trained)
    grows = not of_model and batch > 0 and facts.requested_bytes % batch == 0
    node = scene.library.site(facts.site).node if facts.site > 0 else ""
    return Running(is_stepping, is_backward, modules, trained, batch, grows, node, _graphs(scene))


def _graphs(scene: Scene) -> float:
    if any(frame.values.get("create_graph") is True for frame in scene.frames):
        return 1.0
    constants = (constant for frame in scene.users_frames for constant in frame.code.co_consts)
    return _OF_SECOND_BACKWARD if any(type(one) is tuple and "create_graph" in one for one in constants) else 0.0


def _is_checkpoint(frame: RunningFrame) -> bool:
    return frame.file.endswith(os.path.join("torch", "utils", "checkpoint.py"))


def records(scene: Scene) -> bool:
    """Whether what is being made is for a backward, as far as can be seen."""
    import torch

    # A checkpoint's forward does not record, and its backward runs it again.
    is_checkpoint = any(frame.code.co_name == "forward" and _is_checkpoint(frame) for frame in scene.frames)
    if not (torch.is_grad_enabled() or is_checkpoint):
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
        given = arguments(frame_of_model(scene, modules))
        if any(map(_is_edges, given)):  # the rows of the others are nodes
            return 0
        shapes = [shape_of(value, torch.Tensor) for value in given]
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


def frame_of_model(scene: Scene, modules: list[Any]) -> RunningFrame:
    """Of the outermost module's forward."""
    return next(
        one for one in reversed(scene.frames) if one.values.get("self") is modules[-1] and "forward" in one.function
    )


def arguments(frame: RunningFrame) -> list[Any]:
    given = [value for name, value in frame.values.items() if name in frame.arguments and name != "self"]
    return [*given, *frame.values.get("kwargs", {}).values()]


def tensors_of(frame: RunningFrame) -> list[Any]:
    """That its variables hold, or lists in them."""
    values = [*frame.values.values()]
    values += [inner for value in values if type(value) in (list, tuple) for inner in value]
    return [value for value in values if is_tensor(value)]
