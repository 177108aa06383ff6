"""Where memory was asked for, as far as its component depends on it."""

from __future__ import annotations

import dataclasses
import functools
import os

from ... import _native
from ..._native.sites import Frame, Site
from ..._program import users_code

#: Within a call of a module, and within the making or moving of one; for other ranks.
MODULE_CALL, MODULE_MADE, DISTRIBUTED = "module call", "module made", "distributed"
#: Within a checkpoint of activations, or a loss.
CHECKPOINTED, LOSS = "checkpointed", "loss"

_MODULE_FILE = os.path.join("torch", "nn", "modules", "module.py")
_MODULES = os.path.join("torch", "nn", "modules", "")
_CHECKPOINT_FILE = os.path.join("torch", "utils", "checkpoint.py")
_LOSS_FILE, _FUNCTIONAL_FILE = os.path.join(_MODULES, "loss.py"), os.path.join("torch", "nn", "functional.py")
_LOSSES = ("_loss", "cross_entropy", "_with_logits", "kl_div")  # how their names end
# Whose own memory is for other ranks; DTensor, say, carries out the model's operators.
_DISTRIBUTED = tuple(
    os.path.join("torch", *parts)
    for parts in (
        ("distributed", "fsdp", ""),
        ("distributed", "_composable", ""),
        ("distributed", "_functional_collectives.py"),
        ("distributed", "distributed_c10d.py"),
        ("distributed", "utils.py"),
        ("nn", "parallel", "distributed.py"),
    )
)
# Between an operator and who calls it.
_PASSING_ON = tuple(os.path.join("torch", name) for name in ("_ops.py", os.path.join("utils", "_contextlib.py")))


@dataclasses.dataclass(frozen=True)
class Place:
    where: tuple[str, int, str] | None  # the innermost line of the program's own: file, line, function
    traits: tuple[str, ...]
    node: str  # of autograd's
    forward: int  # number of the site where that node was made; 0: not known


def of(library: _native.Library) -> dict[int, Place]:
    """By number, all that the journal names, and those that these name."""
    by_site: dict[int, Place] = {}
    waiting = [number for number in library.journal_sites() if number > 0]
    while waiting:
        number = waiting.pop()
        if number not in by_site:
            site = library.site(number)
            by_site[number] = _place(site)
            waiting += [site.forward] if site.forward > 0 else []
    return by_site


def _place(site: Site) -> Place:
    users = next((frame for frame in site.frames if users_code.is_users(frame.file)), None)
    traits = {trait for frame in site.frames for trait in _traits(frame)}
    caller = next((frame.file for frame in site.frames if not _passes_on(frame.file)), "")
    if any(part in caller for part in _DISTRIBUTED):
        traits.add(DISTRIBUTED)
    where = (users.file, users.line, users.function) if users else None
    return Place(where, tuple(sorted(traits)), site.node, site.forward)


def _passes_on(file: str) -> bool:
    return file.endswith(_PASSING_ON) or users_code.owner(file) == users_code.OURS


@functools.cache
def _traits(frame: Frame) -> tuple[str, ...]:
    if frame.file.endswith(_MODULE_FILE):
        if frame.function in ("_call_impl", "_wrapped_call_impl"):
            return (MODULE_CALL,)
        if frame.function in ("_apply", "to_empty"):
            return (MODULE_MADE,)
    if frame.file.endswith(_CHECKPOINT_FILE):
        return (CHECKPOINTED,)
    if frame.file.endswith(_LOSS_FILE) or (frame.file.endswith(_FUNCTIONAL_FILE) and frame.function.endswith(_LOSSES)):
        return (LOSS,)
    if _MODULES in frame.file and frame.function in ("__init__", "reset_parameters"):
        return (MODULE_MADE,)
    return ()
