"""What a forward that has not come to its end is still to take, by the layers that it has not run.

None of the model's code is run for it. Of each layer it is worked out how many numbers it makes of a sample; what the
layers that have run keep tells how many bytes that is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from .._heap.live_tensors import Walk, is_parameter, saved_tensors

# What a layer keeps for backward, in tensors as large as what it makes; others keep one. What comes of a ReLU takes the
# place of what went in.
_KEPT = {"ReLU": 0, "ReLU6": 0, "LeakyReLU": 0, "Sigmoid": 0, "Tanh": 0, "Identity": 0, "Flatten": 0}
_KEPT_BY_MAXIMA = 3  # and their places, of 64 bits each
_KEPT_BY_DROPOUT = 1.25
# What comes after the forward, in tensors as large as the largest at work.
AFTER_FORWARD = 3
# What is still to come is counted as so much more: it is an estimate.
CAUTION = 1.25
# A layer that was called so often is called in a loop.
_LEAST_CALLS_IN_LOOP = 3
_MOST_SECONDS = 0.03
# One more dimension than words with features have.
_FEWEST_OF_IMAGE = 3
_ENLARGING = ("interpolate", "upsample", "pixel_shuffle", "conv_transpose")


class Growth(NamedTuple):
    """By how many times as much as now."""

    kept: float  # at the forward's end
    peak: float  # in the backward that follows


def layers_of(model: Any) -> list[Any]:
    """The modules within that compute, in their order: those without one within, or with a matrix of their own."""
    return [one for one in model.modules() if not one._modules or any(own.dim() == 2 for own in _own(one))]


def makes_logits(layer: Any) -> bool:
    import torch

    return isinstance(layer, torch.nn.Linear) and layer.out_features > 2 * layer.in_features


def tied_embedding(model: Any) -> Any:
    """An embedding whose matrix may make logits, too, as no layer does of so many words; None where there is none."""
    import torch

    layers = layers_of(model)
    widths = {layer.out_features for layer in layers if makes_logits(layer)}
    embeddings = [one for one in layers if isinstance(one, torch.nn.Embedding)]
    largest = max(embeddings, key=lambda one: one.num_embeddings, default=None)
    is_of_words = largest is not None and largest.num_embeddings > 2 * largest.embedding_dim
    return largest if is_of_words and not any(width >= largest.num_embeddings for width in widths) else None


class Recorded(NamedTuple):
    """What the graph of a forward tells of it so far."""

    calls: dict[int, int]  # by the id of a parameter, how many operations have used it
    places: dict[
        int, int
    ]  # by the number of features, at how many places tensors of more than three dimensions had them


NOTHING = Recorded({}, {})


def recorded(results: Iterable[Any]) -> Recorded:
    """By the graph that has led to some tensors."""
    calls: Counter[int] = Counter()
    places: dict[int, int] = {}
    for node in Walk(_MOST_SECONDS).behind(result.grad_fn for result in results):
        leaves = (getattr(following, "variable", None) for following, _ in node.next_functions)
        calls.update(id(leaf) for leaf in leaves if leaf is not None)
        for saved in saved_tensors(node):
            if saved.dim() > _FEWEST_OF_IMAGE and not is_parameter(saved):
                places[saved.shape[1]] = max(places.get(saved.shape[1], 0), math.prod(saved.shape[2:]))
    return Recorded(calls, places)


def to_come(modules: list[Any], so_far: Recorded) -> list[Any]:
    """The layers that have not run.

    Args:
        modules: That run, innermost first.
        so_far: Of this forward.
    """
    calls, layers = so_far.calls, layers_of(modules[-1])
    within = {id(one) for one in layers_of(modules[0])}
    # Of what nothing is recorded of, the order in which the modules were made tells.
    reached = max((i for i, one in enumerate(layers) if any(id(own) in calls for own in _own(one))), default=-1)
    if len(within) == 1 or not calls:
        reached = max(reached, next((i for i, one in enumerate(layers) if id(one) in within), -1))
    coming, has_run = [], True
    for i, layer in enumerate(layers):
        recorded = [own for own in _own(layer) if own.requires_grad]
        if recorded or i > reached:
            has_run = any(id(own) in calls for own in recorded) if calls else i <= reached
        if not has_run and layer is not modules[0]:
            coming.append(layer)
    return coming


def growth(modules: list[Any], inputs: list[Any], so_far: Recorded, to_run: list[Any]) -> Growth:
    """Of what this forward keeps. What logits take is not in it.

    Args:
        modules: That run, innermost first.
        inputs: The tensors that the outermost works on.
        so_far: Of this forward.
        to_run: The layers that are to come, and the running one unless what it makes is counted as being there.
    """
    coming = {id(layer) for layer in to_run}
    made = [one for one in _numbers(modules[-1], inputs, so_far.places, coming) if not makes_logits(one[0])]
    made.sort(key=lambda one: id(one[0]) in coming)  # what has run comes first, whatever was made first
    kept = peak = ran = 0.0
    for layer, numbers in made:
        kept += numbers
        ran += 0 if id(layer) in coming else numbers
        peak = max(peak, kept + AFTER_FORWARD * numbers)
    if not ran:
        return Growth(len(made) + 1, len(made) + 1 + AFTER_FORWARD)
    loop = _rounds(modules[0], inputs, so_far.calls)
    return Growth(*(1 + CAUTION * (loop * of / ran - 1) for of in (kept, peak)))


def _own(module: Any) -> list[Any]:
    return [own for own in module._parameters.values() if own is not None]


def _rounds(running: Any, inputs: list[Any], calls: dict[int, int]) -> float:
    """By how many times as often the running layer may be called as it was, where that is in a loop: most go over a
    dimension of the inputs."""
    so_far = max((calls.get(id(own), 0) for own in _own(running)), default=0)
    if so_far < _LEAST_CALLS_IN_LOOP:
        return 1.0
    return max(1.0, max((size for one in inputs for size in one.shape[1:]), default=1) / so_far)


def _numbers(model: Any, inputs: list[Any], seen: dict[int, int], coming: set[int]) -> Iterator[tuple[Any, float]]:
    """Of each layer, how many numbers it keeps of a sample, on a scale that is the same for all: its features, at as
    many places as its inputs and strides leave."""
    places, dimensions = _places_of(inputs)
    features, largest = 1, 0.0
    # The places where so many features were last.
    latest: dict[int, float] = {}
    # What comes back to the places of before joins what was there, and is no larger.
    enlarges, is_bound = _enlarges(model), places > 1
    for layer in layers_of(model):
        before, features = features, _features(layer, features)
        taken = getattr(layer, "in_channels", None) or getattr(layer, "in_features", None) or before
        if taken != before and taken == before * places:  # flattened
            places = 1.0
        elif hasattr(layer, "in_channels") and not (enlarges and taken > before):
            # A forward may have bound its input anew.
            places = latest.get(taken, places) if latest else seen.get(taken, places)
        places = _places_after(layer, places, dimensions)
        if features in seen:
            places = seen[features] if enlarges else min(places, seen[features])
        numbers = features * places
        if id(layer) not in coming:
            largest = max(largest, numbers)
        elif enlarges and is_bound and largest and features not in seen:
            numbers = min(numbers, largest)
            places = numbers / features
        latest[features] = places
        joined = taken * places if enlarges and taken > before and hasattr(layer, "in_channels") else 0
        yield layer, numbers * _kept(layer) + joined


def _places_of(inputs: list[Any]) -> tuple[float, int]:
    """Where a sample has features: pixels, or words. And its dimensions."""
    sizes = [
        (one.shape[2:] if one.dim() > 3 else one.shape[1:] if not one.is_floating_point() else one.shape[1:-1])
        for one in inputs
    ]
    return max(map(math.prod, sizes), default=1), max(map(len, sizes), default=1)


def _features(layer: Any, before: int) -> int:
    for name in ("out_channels", "embedding_dim"):
        if hasattr(layer, name):
            return getattr(layer, name)
    # What recurs joins what comes in.
    matrices = [
        own.shape[0]
        for name, own in layer._parameters.items()
        if own is not None and own.dim() > 1 and "_hh" not in name
    ]
    return sum(matrices) or max((own.numel() for own in _own(layer)), default=before)


def _places_after(layer: Any, places: float, dimensions: int) -> float:
    name = type(layer).__name__
    if name.startswith("Adaptive"):
        return _product(getattr(layer, "output_size", 1), dimensions) or places
    if name == "Upsample":
        return places * (_product(layer.scale_factor, dimensions) or 1)
    if "Conv" in name or "Pool" in name:
        by = _product(getattr(layer, "stride", 1), dimensions) or 1
        return places * by if "Transpose" in name else max(1.0, places / by)
    return places


def _product(sizes: Any, dimensions: int) -> float | None:
    if isinstance(sizes, tuple):
        return None if None in sizes else math.prod(sizes)
    return None if sizes is None else sizes**dimensions


def _kept(layer: Any) -> float:
    name = type(layer).__name__
    if name.startswith("MaxPool"):
        return _KEPT_BY_MAXIMA
    if "Dropout" in name:
        return _KEPT_BY_DROPOUT if layer.p and layer.training else 0
    return _KEPT.get(name, 1)


def _enlarges(model: Any) -> bool:
    """Whether places may become more again."""
    names: set[str] = set()
    for module in model.modules():
        names.update((type(module).__name__, *getattr(getattr(type(module).forward, "__code__", None), "co_names", ())))
    return any(word in name.lower() for name in names for word in (*_ENLARGING, "convtranspose", "pixelshuffle"))
