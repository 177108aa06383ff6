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
from .optimizer_state import bytes_of

# What a layer keeps for backward, in tensors as large as what it makes; others keep one. What comes of a ReLU takes the
# place of what went in.
_KEPT = {"ReLU": 0, "ReLU6": 0, "LeakyReLU": 0, "Sigmoid": 0, "Tanh": 0, "Identity": 0, "Flatten": 0}
_KEPT_BY_MAXIMA = 3  # and their places, of 64 bits each
_KEPT_BY_DROPOUT = 1.25
# What comes after the forward, in tensors as large as the largest at work: a loss that squares takes as many.
AFTER_FORWARD = 4
# What is still to come is counted as so much more: it is an estimate.
CAUTION = 1.25
# A layer that was called so often is called in a loop.
_LEAST_CALLS_IN_LOOP = 3
_MOST_SECONDS = 0.03
# One more dimension than words with features have.
_FEWEST_OF_IMAGE = 3
_ENLARGING = ("interpolate", "upsample", "pixel_shuffle", "conv_transpose")


class Stage(NamedTuple):
    """A layer of the forward, with those without parameters that follow it. In backward it comes after those behind it,
    which have let go of what they kept, and have made their gradients."""

    kept_bytes: float  # by the forward so far
    at_work_bytes: float  # that its backward makes, and was given
    gradient_bytes: int  # of its parameters, and of those behind it


class _Layers(NamedTuple):
    """One that is trained, and those that follow it and are not."""

    first: Any
    numbers: float  # that they keep of a sample
    made: float  # that one of them makes of it, at most
    handed_on: float  # that the last of them makes
    is_coming: bool

    @property
    def kind(self) -> tuple:
        return type(self.first), *(own.shape for own in _own(self.first)), self.numbers


def layers_of(model: Any) -> list[Any]:
    """The modules within that compute, in their order: those without one within, or with a matrix of their own."""
    return [one for one in model.modules() if not one._modules or any(own.dim() == 2 for own in _own(one))]


def head_of(model: Any) -> Any:
    """The layer that makes logits: a matrix whose results no other layer takes, the outermost and last of such; None
    where there is none."""
    import torch

    taken = {_taken(layer) for layer in layers_of(model)}
    matrices = ((name, one) for name, one in model.named_modules() if isinstance(one, torch.nn.Linear))
    ends = [(name.count("."), one) for name, one in matrices if one.out_features not in taken]
    outermost = min((depth for depth, _ in ends), default=0)
    return next((one for depth, one in reversed(ends) if depth == outermost), None)


def _taken(layer: Any) -> int:
    """How many features a layer works on; 0: that is not known."""
    for name in ("in_features", "in_channels", "num_features", "input_size", "embed_dim"):
        if isinstance(taken := getattr(layer, name, None), int):
            return taken
    return next(iter(reversed(getattr(layer, "normalized_shape", ()))), 0)


def tied_embedding(model: Any) -> Any:
    """An embedding whose matrix may make logits, too, as no layer does of so many words; None where there is none."""
    import torch

    embeddings = [one for one in layers_of(model) if isinstance(one, torch.nn.Embedding)]
    largest = max(embeddings, key=lambda one: one.num_embeddings, default=None)
    is_of_words = largest is not None and largest.num_embeddings > 2 * largest.embedding_dim
    return largest if is_of_words and head_of(model) is None else None


class Recorded(NamedTuple):
    """What the graph of a forward tells of it so far.

    Attributes:
        calls: By the id of a parameter, how many operations have used it.
        places: By the number of features, at how many places tensors of more than three dimensions had them.
        kept: By the id of a layer's first parameter, the bytes that it and those without parameters behind it have kept
            for backward; without the latest layer, which may not be done.
    """

    calls: dict[int, int]
    places: dict[int, int]
    kept: dict[int, int]


NOTHING = Recorded({}, {}, {})


def recorded(results: Iterable[Any], model: Any) -> Recorded:
    """By the graph that has led to some tensors."""
    import torch

    calls: Counter[int] = Counter()
    places: dict[int, int] = {}
    layers = {id(own): id(_own(layer)[0]) for layer in layers_of(model) for own in _own(layer) if own.requires_grad}
    seen: list[tuple[int, int, dict[int, int]]] = []
    for node in Walk(_MOST_SECONDS).behind(result.grad_fn for result in results):
        leaves = [id(leaf) for edge, _ in node.next_functions if (leaf := getattr(edge, "variable", None)) is not None]
        calls.update(leaves)
        storages = {}
        for saved in saved_tensors(node):
            if is_parameter(saved):
                continue
            if saved.dim() > _FEWEST_OF_IMAGE:
                places[saved.shape[1]] = max(places.get(saved.shape[1], 0), math.prod(saved.shape[2:]))
            if saved.layout is torch.strided:
                storages[saved.untyped_storage()._cdata] = saved.untyped_storage().nbytes()
        seen.append((node._sequence_nr(), next((layers[leaf] for leaf in leaves if leaf in layers), 0), storages))
    return Recorded(calls, places, _kept_by_layers(sorted(seen, key=lambda one: one[0])))


def _kept_by_layers(nodes: list[tuple[int, int, dict[int, int]]]) -> dict[int, int]:
    """Of each layer the bytes.

    Args:
        nodes: In the order in which they were made, each with its layer, or 0, and the storages that it has saved.
    """
    kept: Counter[int] = Counter()
    latest, known = 0, set()
    for _, layer, storages in nodes:
        latest = layer or latest
        kept[latest] += sum(size for storage, size in storages.items() if storage not in known)
        known |= storages.keys()
    kept.pop(latest, None)
    return kept


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


def course(modules: list[Any], inputs: list[Any], so_far: Recorded, to_run: list[Any], now: float) -> list[Stage]:
    """What this forward keeps, layer by layer, in the order in which they run. What logits take is not in it.

    Args:
        modules: That run, innermost first.
        inputs: The tensors that the outermost works on.
        so_far: Of this forward.
        to_run: The layers that are to come, and the running one unless what it makes is counted as being there.
        now: The bytes that grow with the batch and are there.
    """
    coming = {id(layer) for layer in to_run}
    layers = _layers(modules[-1], inputs, so_far, coming)
    ran = sum(one.numbers for one in layers if not one.is_coming)
    unit = now / ran if ran else now
    loop = _rounds(modules[0], inputs, so_far.calls)
    measured: dict[tuple, list[int]] = {}
    for one in layers:
        if not one.is_coming and loop == 1 and (own := _own(one.first)) and id(own[0]) in so_far.kept:
            measured.setdefault(one.kind, []).append(so_far.kept[id(own[0])])
    stages, kept = [], 0.0
    for one in layers:
        alike = measured.get(one.kind) if one.is_coming else None
        made, handed_on = (unit * (numbers if ran else 1) for numbers in (one.made, one.handed_on))
        if alike:
            kept += sum(alike) / len(alike)
        elif one.is_coming:
            kept += CAUTION * unit * (one.numbers if ran else 1)
        else:
            kept += unit * one.numbers * (1 + CAUTION * (loop - 1))
        # What was measured is kept by who takes it: what the layer hands on comes on top.
        stages.append((kept + (handed_on if alike else 0), made, handed_on, one.first))
    return list(_backwards(stages))[::-1]


def _backwards(stages: list[tuple[float, float, float, Any]]) -> Iterator[Stage]:
    """From the last on. A stage has what the forward has kept so far, what its layers make at most, what they hand on,
    and the layer with parameters."""
    gradients = 0
    for i in reversed(range(len(stages))):
        kept, made, _, layer = stages[i]
        gradients += sum(bytes_of(own) for own in _own(layer) if own.requires_grad)
        # Gradients of what it made, one of them handed on beside it, and of what it was given.
        given = stages[i - 1][2] if i else 0
        at_work = 2 * made + given
        yield Stage(kept, max(at_work, AFTER_FORWARD * made) if i + 1 == len(stages) else at_work, gradients)


def _layers(model: Any, inputs: list[Any], so_far: Recorded, coming: set[int]) -> list[_Layers]:
    """Those of the model, that have run first, whatever was made first."""
    head, found = head_of(model), []
    for layer, kept, made in _numbers(model, inputs, so_far.places, coming):
        if layer is head:
            kept = made = 0.0
        is_trained = any(own.requires_grad for own in _own(layer))
        if found and not is_trained and found[-1].is_coming == (id(layer) in coming):
            last = found.pop()
            found.append(last._replace(numbers=last.numbers + kept, made=max(last.made, made), handed_on=made))
        else:
            found.append(_Layers(layer, kept, made, made, id(layer) in coming))
    return sorted(found, key=lambda one: one.is_coming)


def _own(module: Any) -> list[Any]:
    return [own for own in module._parameters.values() if own is not None]


def _rounds(running: Any, inputs: list[Any], calls: dict[int, int]) -> float:
    """By how many times as often the running layer may be called as it was, where that is in a loop: most go over a
    dimension of the inputs."""
    so_far = max((calls.get(id(own), 0) for own in _own(running)), default=0)
    if so_far < _LEAST_CALLS_IN_LOOP:
        return 1.0
    return max(1.0, max((size for one in inputs for size in one.shape[1:]), default=1) / so_far)


def _numbers(
    model: Any, inputs: list[Any], seen: dict[int, int], coming: set[int]
) -> Iterator[tuple[Any, float, float]]:
    """Of each layer, how many numbers it keeps of a sample, and makes of it, on a scale that is the same for all: its
    features, at as many places as its inputs and strides leave."""
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
        elif places == 1 and hasattr(layer, "in_channels") and before > taken and before % taken == 0:  # and back
            places = before / taken
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
        # What recurs keeps its gates.
        made = places * getattr(layer, "hidden_size", features) * (2 if getattr(layer, "bidirectional", False) else 1)
        yield layer, numbers * _kept(layer) + joined, made + joined


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
