"""What a model makes of each word, and a loss of that: often the most that a step has at once."""

from __future__ import annotations

from typing import Any

from .._heap.live_tensors import is_tensor
from . import forward
from .optimizer_state import bytes_of
from .scene import Scene

# Logits, what a loss computes of them, their logarithms, and in backward the gradients of both. Of logits in half
# precision autocast has losses compute in single.
_LOGITS_OF_LOSS = 4
_HALF_LOGITS_OF_LOSS = 6
_LOSSES = frozenset(("cross_entropy", "nll_loss", "log_softmax"))
# A student learns a teacher's logits: both, softened, the logarithms of one, and what is made of their difference.
_LOGITS_OF_DISTILLING = 4
_DISTILLING = frozenset(("kl_div", "KLDivLoss"))
_LEAST_CLASSES = 4096
_SINGLE = 4  # bytes


def outputs_to_come(scene: Scene, modules: list[Any], coming: list[Any]) -> list[int]:
    """The bytes of what linear layers are still to make, which may be larger than what has come before, as logits are;
    of logits, with what a loss makes of them. `coming`: the layers that have not run."""
    import torch

    linear = [layer for layer in coming if isinstance(layer, torch.nn.Linear)]
    found, times = [], _LOGITS_OF_LOSS + _of_distilling(scene) if torch.is_grad_enabled() else 1
    head = forward.head_of(modules[-1])
    for layer in linear:
        made = _outputs(scene, layer.in_features, layer.out_features)
        found.append(made * layer.weight.element_size() * (times if layer is head else 1))
    tied = forward.tied_embedding(modules[-1])
    if tied is not None:
        made = _outputs(scene, tied.embedding_dim, tied.num_embeddings)
        found.append(made * tied.weight.element_size() * times)
    return found


def _of_distilling(scene: Scene) -> int:
    """How many tensors as large as the logits a loss beside the usual one is to make; less where it has begun."""
    if any(frame.function in _DISTILLING for frame in scene.frames):
        return 1
    named = (name for frame in scene.users_frames for name in frame.code.co_names)
    of_type = (type(value).__name__ for frame in scene.users_frames for value in frame.values.values())
    return 0 if _DISTILLING.isdisjoint((*named, *of_type)) else _LOGITS_OF_DISTILLING


def _outputs(scene: Scene, features: int, made: int) -> int:
    """How many numbers a matrix makes of what the frames have for it: `made` of each `features`, or of each word."""
    values = [value for frame in scene.frames for value in frame.values.values() if is_tensor(value)]
    inputs = [value.numel() // features for value in values if value.dim() > 1 and value.shape[-1] == features]
    words = [value.numel() for value in values if value.dim() > 1 and not value.is_floating_point()]
    return max(inputs or words, default=0) * made


def of_loss(scene: Scene, modules: list[Any], is_backward: bool, node: str) -> tuple[int, int]:
    """The bytes of the logits that are being made, or of which a loss is, and of all that loss and backward make of
    them, and how many of these bytes are neither there nor asked for. `node`: autograd's, which asks in backward."""
    requested, more = scene.facts.requested_bytes, _of_distilling(scene)
    loss = next((frame for frame in scene.frames if frame.code.co_name in _LOSSES and not frame.is_users), None)
    if loss is not None and is_tensor(logits := loss.values.get("input")):
        times = more + (_HALF_LOGITS_OF_LOSS if logits.element_size() < _SINGLE else _LOGITS_OF_LOSS)
        return times * bytes_of(logits), (times - 2) * bytes_of(logits)
    head = forward.head_of(modules[-1]) if modules else None
    if head is not None and modules[0] is head:
        is_half = requested < _outputs(scene, head.in_features, head.out_features) * _SINGLE
        times = more + (_HALF_LOGITS_OF_LOSS if is_half else _LOGITS_OF_LOSS)
        return times * requested, (times - 1) * requested
    results = [value for frame in scene.users_frames for value in frame.values.values() if is_tensor(value)]
    alike = (one for one in results if one.grad_fn is not None and bytes_of(one) == requested)
    if (more or is_backward) and any(one.dim() > 1 and one.shape[-1] >= _LEAST_CLASSES for one in alike):
        times = _LOGITS_OF_LOSS + (0 if is_backward else more)
        # The gradient of the logits is the last that is as large.
        in_backward = 0 if node == "LogSoftmaxBackward0" else requested
        return times * requested, in_backward if is_backward else more * requested
    return 0, 0
