"""Checkpoints that are loaded to the GPU, beside the model that is filled from them."""

from __future__ import annotations

import gc
import os
from collections import Counter
from typing import Any

from .._common.messages import format_bytes as size
from .._heap.live_tensors import address_of, is_parameter, is_tensor
from .._tracking.trained import parameters_of, tensors_in_state
from . import holding_lines
from .scene import LEAST_BYTES, NEEDLESS, Advice, Scene

# By the end of a file's path: how its readers are told to stay on the host.
_READERS = {
    os.path.join("torch", "serialization.py"): 'torch.load(..., map_location="cpu")',
    os.path.join("safetensors", "torch.py"): 'load_file(..., device="cpu")',
}


def running(scene: Scene) -> str:
    """How the reader that runs would stay on the host; "": none runs."""
    return next(filter(None, map(_reader, (frame.file for frame in scene.frames))), "")


def find(scene: Scene) -> list[Advice]:
    """About the line that has loaded most which is no model's own."""
    weights = {address_of(one) for one in gc.get_objects() if is_tensor(one) and is_parameter(one)}
    states = {address_of(one) for optimizer in scene.optimizers for one in _state(optimizer)}
    lines: Counter[tuple] = Counter()
    for block, change in _loaded(scene):
        made = holding_lines.of_site(scene.library, block.site)
        if block.address in weights:  # a whole model was in the file
            return []
        if made is not None and block.address not in states:
            lines[made, change] += block.bytes
    if not lines:
        return []
    (made, change), held = lines.most_common(1)[0]
    # What is still to be read stays on the host, too.
    freed = held + (scene.facts.missing_bytes if running(scene) else 0)
    if freed < LEAST_BYTES:
        return []
    text = (
        f"{change} at {made.short} leaves {size(held)} on the host: load_state_dict() copies from there what the model "
        "and the optimizer need"
    )
    return [Advice(text, made.file, made.line, freed, NEEDLESS)]


def _state(optimizer: Any) -> list[Any]:
    return [one for owner in parameters_of(optimizer) for one in tensors_in_state(optimizer.state.get(owner))]


def _loaded(scene: Scene) -> list[tuple[Any, str]]:
    """The blocks that a reader has filled, and how it would not."""
    changes: dict[int, str] = {}
    found = []
    for segment in scene.library.segments():
        for block in segment.blocks if segment.gpu == scene.facts.gpu else ():
            if block.state != "allocated" or block.site <= 0:
                continue
            if block.site not in changes:
                frames = scene.library.site(block.site).frames
                changes[block.site] = next(filter(None, (_reader(frame.file) for frame in frames)), "")
            if changes[block.site]:
                found.append((block, changes[block.site]))
    return found


def _reader(file: str) -> str:
    return next((change for ending, change in _READERS.items() if file.endswith(ending)), "")
