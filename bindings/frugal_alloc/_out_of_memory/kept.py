"""Variables that are still read but keep more than their values: results, with the graphs that made them."""

from __future__ import annotations

import collections
import functools
import gc
import linecache
import os
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from .._common.messages import format_bytes as size
from .._heap import raw_objects
from .._heap.live_tensors import is_on, is_tensor
from .._program import code_lines
from .._program.code_lines import short_path, written
from .._program.liveness import Flow
from .scene import LEAST_BYTES, Advice, RunningFrame, Scene, statement

_CONTAINERS = (list, tuple, dict, set, collections.deque)
_MOST_ENTRIES = 20_000
# The names of a notebook's outputs beside "Out": "_12", and of the latest "_", "__" and "___".
_OUTPUT = re.compile(r"_{1,3}|_\d+")


class Kept(NamedTuple):
    """A list (dictionary, attribute) of tensors, or one result, in a frame of the user's."""

    name: str  # "losses", "self.outputs"
    file: str
    added_in: int | None  # the first line that puts something in, if one was found
    tensors: int
    is_container: bool
    bytes: int  # freed if it let go of all
    graph_bytes: int  # of these, what would be free if it kept the values without their graphs
    is_out: bool  # a notebook's Out

    @property
    def keeper(self) -> str:
        return f"`{self.name}`"

    @property
    def advice(self) -> Advice:
        if self.is_out:
            text = (
                f"`Out` keeps the values of cells' last lines ({size(self.bytes)}): end such a line with a semicolon; "
                "%xdel _12 lets go of Out[12], and %reset -f of all variables"
            )
            return Advice(text, self.file, None, self.bytes)
        line = self.added_in
        where = f"at {written(self.file, line)}" if line else f"where {short_path(self.file)} fills it"
        freed = self.graph_bytes
        if not self.is_container:
            text = (
                f"`{self.name}` holds the graphs of all that went into it ({size(freed)}): {where} add "
                "loss.detach() instead, or call backward for each"
            )
        elif self.graph_bytes * 2 >= self.bytes:
            text = (
                f"`{self.name}` keeps {self.tensors} results with their graphs: {where} keep .detach() of each, or "
                f".item() of a loss; their graphs hold {size(freed)}"
            )
        else:
            freed = self.bytes
            text = (
                f"`{self.name}` holds {self.tensors} tensors on the GPU ({size(freed)}): {where} keep them on the host "
                "(.cpu()), and move what a step needs"
            )
        return Advice(text, self.file, line, freed)


def find_kept(scene: Scene) -> list[Kept]:
    """Those that hold much, the most first."""
    found: dict[int, Kept] = {}
    for frame in scene.users_frames:
        for name, value in named(frame):
            if id(value) not in found and (kept := _look(name, value, frame, scene)):
                found[id(value)] = kept
    return sorted(found.values(), key=lambda kept: -kept.bytes)


def named(frame: RunningFrame) -> Iterator[tuple[str, Any]]:
    """The frame's variables and, of objects of the user's own classes among them, the attributes. Private names are
    last: a notebook's "_oh" is its "Out". Refers to one value at a time, since references are counted."""
    names = sorted(frame.values, key=lambda name: name.startswith("_"))
    yield from ((name, frame.values[name]) for name in names)
    for name, value in frame.values.items():
        # What a library's object keeps, as an optimizer its state, it needs.
        is_of_users = not issubclass(type(value), type) and raw_objects.is_users_class(type(value))
        attributes = getattr(value, "__dict__", None) if is_of_users else None
        if type(attributes) is dict:
            yield from ((f"{name}.{key}", inner) for key, inner in attributes.items() if key not in _of_modules())


@functools.cache
def _of_modules() -> frozenset[str]:
    """Attributes that every torch.nn.Module has: parameters and buffers among them."""
    import torch

    return frozenset(torch.nn.Module().__dict__)


def _look(name: str, value: Any, frame: RunningFrame, scene: Scene) -> Kept | None:
    gpu, ownership = scene.facts.gpu, scene.ownership
    is_container = issubclass(type(value), _CONTAINERS)
    if is_container and _holds_graphs(value):
        return None
    tensors = _tensors_in(value, gpu) if is_container else [value] if _is_result(value, gpu) else []
    if not tensors or (is_container and len(tensors) < 2):
        return None
    added_in = line_that_adds(name, frame)
    # A result that nothing is added to is a step's own, and a container that is read is what the call works on.
    if added_in is None and (not is_container or name in _read_now(frame)):
        return None
    # So is a sum of which each step makes another.
    if added_in and not is_container and "." not in name and not Flow(frame.code).adds_up(name, added_in):
        return None
    all_bytes = graph_bytes = 0
    is_out = name == "Out" and not os.path.isfile(frame.file)
    if is_container:
        named = _beside_out(frame) if is_out else []
        all_bytes = ownership.freed_by_dropping([*tensors, *named], scene.held + Counter(map(id, (*tensors, *named))))
    if any(tensor.grad_fn is not None for tensor in tensors):
        graph_bytes = ownership.freed_by_detaching(tensors)
    if max(all_bytes, graph_bytes) < LEAST_BYTES:
        return None
    return Kept(
        name, frame.file, added_in, len(tensors), is_container, max(all_bytes, graph_bytes), graph_bytes, is_out
    )


def _beside_out(frame: RunningFrame) -> list[Any]:
    """The tensors that IPython has by other names, once for each reference."""
    shell = code_lines.notebook()
    hook = getattr(getattr(shell, "displayhook", None), "__dict__", {})
    namespaces = (frame.values, getattr(shell, "user_ns_hidden", {}), hook)
    found = [value for names in namespaces for name, value in names.items() if _OUTPUT.fullmatch(name)]
    found.append(getattr(getattr(shell, "last_execution_result", None), "result", None))
    return list(filter(is_tensor, found))


_ADDING = r"\s*(\.(append|appendleft|extend|add|insert|update|setdefault)\(|\+=|\[.*\]\s*=[^=]|=\s*\[.+\bfor\b)"


def line_that_adds(name: str, frame: RunningFrame) -> int | None:
    """The first line that puts something into a variable of the function, or into an attribute anywhere in the file."""
    variable, _, attribute = name.partition(".")
    if attribute:
        pattern = re.compile(rf"\.{re.escape(attribute)}{_ADDING}")
        lines = range(1, len(linecache.getlines(frame.file)) + 1)
    else:
        adding = rf"({_ADDING}|\s*=\s*{re.escape(variable)}\s*\+)"
        pattern = re.compile(rf"(?<![\w.]){re.escape(variable)}(\[[^\]]*\])*{adding}")
        lines = sorted({line for _, _, line in frame.code.co_lines() if line})
    return next((line for line in lines if pattern.search(linecache.getline(frame.file, line))), None)


def _read_now(frame: RunningFrame) -> set[str]:
    now = statement(frame)
    return set() if now is None else Flow(frame.code).read_in_lines(now.first, now.last)


def _tensors_in(container: Any, gpu: int, depth: int = 2) -> list[Any]:
    """On the GPU, up to two levels deep. Parameters are not what a list was made for."""
    import torch

    entries = container.values() if issubclass(type(container), dict) else container
    found = []
    for entry, _ in zip(list(entries), range(_MOST_ENTRIES), strict=False):
        if is_tensor(entry):
            if is_on(entry, gpu) and type(entry) is not torch.nn.Parameter:
                found.append(entry)
        elif depth > 1 and issubclass(type(entry), _CONTAINERS) and gc.is_tracked(entry):
            found += _tensors_in(entry, gpu, depth - 1)
    return found


def _holds_graphs(container: Any) -> bool:
    """Whether CUDA graphs are in it or in its entries: what they read and write has to stay where it is."""
    import torch

    entries = container.values() if issubclass(type(container), dict) else container
    for entry, _ in zip(list(entries), range(_MOST_ENTRIES), strict=False):
        inner = entry if issubclass(type(entry), (list, tuple)) else (entry,)
        if any(issubclass(type(part), torch.cuda.CUDAGraph) for part in inner):
            return True
    return False


def _is_result(value: Any, gpu: int) -> bool:
    return is_tensor(value) and value.grad_fn is not None and is_on(value, gpu)
