"""Settings that libraries have for what a program's own change could hardly reach: predictions that a trainer gathers,
images that an autoencoder decodes whole, windows that are stitched together.

They are known by their names in the library's running functions, not by the library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from .._common.messages import format_bytes as size
from .._heap.live_tensors import is_on, is_tensor
from . import what_runs
from .levers import tensors_within
from .scene import SETTING, Advice, RunningFrame, Scene

# What a layer makes of its input is there beside both.
_TENSORS_AT_WORK = 2


def find(scene: Scene) -> list[Advice]:
    """Those that are not set, and would be enough."""
    finders: tuple[Callable[[RunningFrame, Scene], Advice | None], ...] = (_gathering, _stitching, _whole_images)
    found = [finder(frame, scene) for frame in scene.frames if not frame.is_users for finder in finders]
    return [advice for advice in found if advice is not None and advice.bytes >= scene.facts.missing_bytes][:1]


def _setting(text: str, freed: int) -> Advice:
    return Advice(text, None, None, freed, SETTING)


def _bytes(values: Iterable[Any], gpu: int) -> int:
    """Of the GPU's memory behind some values."""
    storages = (tensor.untyped_storage() for tensor in tensors_within(values) if is_on(tensor, gpu))
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


def _with_request(held: int, scene: Scene) -> int:
    """With what is asked for, unless that is a layer's: it joins what is held."""
    return held if what_runs.running_modules(scene.frames) else held + scene.facts.requested_bytes


def _gathering(frame: RunningFrame, scene: Scene) -> Advice | None:
    """An evaluation that gathers the predictions of the whole data set before it moves them."""
    arguments = getattr(frame.values.get("self"), "args", None)
    if getattr(arguments, "eval_accumulation_steps", 0) is not None:
        return None
    gathered = _bytes((value for name, value in frame.values.items() if name.startswith("all_")), scene.facts.gpu)
    if not gathered:
        return None
    text = (
        f"eval_accumulation_steps=1 in {type(arguments).__name__} moves the predictions to the host after each batch: "
        f"{size(gathered)} of them are on the GPU by now"
    )
    return _setting(text, _with_request(gathered, scene))


def _stitching(frame: RunningFrame, scene: Scene) -> Advice | None:
    """Windows whose results are put together on the GPU."""
    values = frame.values
    if frame.code.co_name != "sliding_window_inference" or "cuda" not in str(values.get("device")):
        return None
    held = _with_request(
        _bytes((values.get("output_image_list"), values.get("count_map_list")), scene.facts.gpu), scene
    )
    text = (
        f'sliding_window_inference(..., device="cpu") puts the windows together on the host, and computes each on the '
        f"GPU as before: {size(held)} go"
    )
    return _setting(text, held)


def _whole_images(frame: RunningFrame, scene: Scene) -> Advice | None:
    """An autoencoder that can work on tiles, or on one image of a batch after the other."""
    model = frame.values.get("self")
    if getattr(model, "use_tiling", None) is not False or not hasattr(model, "enable_tiling"):
        return None
    inputs = [value for name, value in frame.values.items() if name in frame.arguments and is_tensor(value)]
    image = next((value for value in inputs if value.dim() >= 4), None)
    if image is None:
        return None
    facts = scene.facts
    inner = scene.frames[: scene.frames.index(frame)]
    at_work = facts.requested_bytes + _bytes(
        (v for one in inner for v in one.values.values() if is_tensor(v)), facts.gpu
    )
    room = at_work - facts.missing_bytes
    name, images = type(model).__name__, image.shape[0]
    if images > 1 and getattr(model, "use_slicing", None) is False and _TENSORS_AT_WORK * at_work <= room * images:
        freed = at_work * (images - 1) // images
        return _setting(
            f"{name}.enable_slicing() works on one of the {images} images at a time: {size(freed)} go", freed
        )
    kind = "sample" if "encode" in frame.code.co_name else "latent"
    tile = getattr(model, f"tile_{kind}_min_size", None) or getattr(model, f"tile_{kind}_min_height", None)
    if not tile or image.shape[-1] * image.shape[-2] <= tile * tile:
        return None
    part = tile * tile / (image.shape[-1] * image.shape[-2])
    if _TENSORS_AT_WORK * at_work * part > room:
        return None
    freed = math.floor(at_work * (1 - part))
    text = (
        f"{name}.enable_tiling() works on tiles of {tile} by {tile} of {image.shape[-2]} by {image.shape[-1]}: "
        f"{size(freed)} go"
    )
    return _setting(text, freed)
