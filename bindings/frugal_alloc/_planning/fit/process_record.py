"""What the agent says of a process at its end, and how the command reads it. The journal is a file of its own."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..._common import shapes
from ..._native.journal import JournalEntry, entries_in
from ..._native.sites import Frame, Site
from ..._program import users_code
from .. import machine
from ..recorder import Journal

#: Why the agent has ended the program.
STEPS = "steps"
#: The keys of the messages: how many steps have ended; why the process cannot be followed; all of a ProcessRecord.
STEPS_ENDED, REFUSED, RECORD = "steps_ended", "refused", "record"
# Beside REFUSED, where PyTorch has no kernels for the GPU: what it has some for.
BUILT_FOR = "built_for"
#: Traits of places: within a call of a module, and within the making or moving of one; for other ranks.
MODULE_CALL, MODULE_MADE, DISTRIBUTED = "module call", "module made", "distributed"
#: Within a checkpoint of activations, or a loss.
CHECKPOINTED, LOSS = "checkpointed", "loss"
#: Within a cache of keys and values; and within libraries that have settings of their own.
CACHED, TRAINER, TRANSFORMERS, DIFFUSERS = "cached", "trainer", "transformers", "diffusers"

_MODULE_FILE = os.path.join("torch", "nn", "modules", "module.py")
_MODULES = os.path.join("torch", "nn", "modules", "")
_CHECKPOINT_FILE = os.path.join("torch", "utils", "checkpoint.py")
_LOSS_FILE, _FUNCTIONAL_FILE = os.path.join(_MODULES, "loss.py"), os.path.join("torch", "nn", "functional.py")
_LOSSES = ("_loss", "cross_entropy", "_with_logits", "kl_div")  # how their names end
# Whose own memory is for other ranks, by the beginning of file and function; DTensor, say, carries out the model's
# operators, and most functions of DeepSpeed's stages make shards of the optimizer's.
_DISTRIBUTED = tuple(
    os.path.join(*parts)
    for parts in (
        ("torch", "distributed", "fsdp", ""),
        ("torch", "distributed", "_composable", ""),
        ("torch", "distributed", "_functional_collectives.py"),
        ("torch", "distributed", "distributed_c10d.py"),
        ("torch", "distributed", "utils.py"),
        ("torch", "nn", "parallel", "distributed.py"),
        ("deepspeed", "comm", ""),
        ("deepspeed", "runtime", "zero", "partition"),
        ("deepspeed", "runtime", "zero", "stage_1_and_2.py:setup_buckets"),
        ("deepspeed", "runtime", "zero", "stage_1_and_2.py:reduce_gradients"),
        ("deepspeed", "runtime", "zero", "stage3.py:_setup_for_real_optimizer"),
    )
)
# As transformers and vLLM name their files, and others, too.
_CACHES = re.compile(r"(cache_utils|kv_?cache\w*)\.py", re.IGNORECASE)
_SETTABLE = (
    (os.path.join("transformers", "trainer.py"), TRAINER),
    (os.path.join("transformers", "models", ""), TRANSFORMERS),
    (os.path.join("diffusers", "models", ""), DIFFUSERS),
)
# Between an operator and who calls it.
_PASSING_ON = tuple(
    os.path.join(*parts)
    for parts in (("torch", "_ops.py"), ("torch", "utils", "_contextlib.py"), ("deepspeed", "utils", "nvtx.py"))
)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where memory was asked for, as far as its component depends on it."""

    where: tuple[str, int, str] | None  # the innermost line of the program's own: file, line, function
    traits: tuple[str, ...]
    node: str  # of autograd's
    forward: int  # number of the site where that node was made; 0: not known


@dataclasses.dataclass(frozen=True)
class ProcessRecord:
    process: int
    rank: int
    steps: int
    trains: bool  # it has made an optimizer, or a backward pass
    is_half: bool  # it has entered autocast, or trains parameters of half precision
    can_fuse: bool  # an optimizer of it knows fused=True, and was made without
    allocator: str  # that it had: "native", "expandable" or "frugal"
    settings: str  # of PyTorch's allocator, as PYTORCH_CUDA_ALLOC_CONF has them
    reordered: int  # how many loaders gave their largest batches first
    ended: str  # STEPS, or "" where the program has ended by itself
    error: str  # of an out-of-memory error that nobody caught; "" for none
    advice: tuple[tuple[str, int, bool], ...]  # that it gave: what to change, the bytes that frees, is it about a line
    texts: tuple[str, ...]  # of marks and labels, by number
    places: Mapping[int, Place]  # by the number of a site
    # By GPU: the most bytes that were requested at a time, and reserved, as PyTorch counts them.
    counted: Mapping[int, tuple[int, int]]
    managed: Mapping[int, int]  # by GPU: bytes of managed memory (cudaMallocManaged)
    guesses: tuple[str, ...]
    not_simulated: tuple[str, ...]
    journal: str  # its file

    def entries(self, context_bytes: int = 0) -> Iterator[JournalEntry]:
        """
        Args:
            context_bytes: What the context takes of each GPU, which the simulated machine counts apart.
        """
        for entry in entries_in(Path(self.journal).read_bytes()):
            yield entry if entry.gpu_used < 0 else entry._replace(gpu_used=entry.gpu_used + context_bytes)


def of_this_process(folder: str, journal: Journal, **known: Any) -> dict[str, Any]:
    """A message with the fields of a ProcessRecord, of which the agent knows some.

    Raises:
        OSError, FrugalAllocError: the journal cannot be written.
    """
    process = os.getpid()
    file = Path(folder, f"{process}.journal")
    journal.journal_write(file)
    fields = {
        "process": process,
        "rank": int(os.environ.get("RANK", "-1")),
        "texts": journal.journal_texts(),
        "places": {number: dataclasses.asdict(place) for number, place in _places(journal).items()},
        "counted": _counted(),
        "managed": _managed(),
        **_allocator(journal),
        "guesses": _guesses(),
        "not_simulated": _not_simulated(),
        "journal": str(file),
    }
    return {RECORD: fields | known}


def read_all(messages: Iterable[Mapping[str, Any]]) -> list[ProcessRecord]:
    """In the order of ranks; of processes without one in that of their numbers.

    Raises:
        ValueError: one is damaged; the message is one line.
    """
    records = [shapes.read(ProcessRecord, message[RECORD]) for message in messages if RECORD in message]
    return sorted(records, key=lambda record: (record.rank, record.process))


def _places(journal: Journal) -> dict[int, Place]:
    """By number, all that the journal names, and those that these name."""
    by_site: dict[int, Place] = {}
    waiting = [number for number in journal.journal_sites() if number > 0]
    while waiting:
        number = waiting.pop()
        if number not in by_site:
            site = journal.site(number)
            by_site[number] = _place(site)
            waiting += [site.forward] if site.forward > 0 else []
    return by_site


def _place(site: Site) -> Place:
    users = next((frame for frame in site.frames if users_code.is_users(frame.file)), None)
    traits = {trait for frame in site.frames for trait in _traits(frame)}
    caller = next((f"{frame.file}:{frame.function}" for frame in site.frames if not _passes_on(frame.file)), "")
    if any(part in caller for part in _DISTRIBUTED):
        traits.add(DISTRIBUTED)
    where = (users.file, users.line, users.function) if users else None
    return Place(where, tuple(sorted(traits)), site.node, site.forward)


def _passes_on(file: str) -> bool:
    return file.endswith(_PASSING_ON) or users_code.owner(file) == users_code.OURS


@functools.cache
def _traits(frame: Frame) -> tuple[str, ...]:
    if _CACHES.fullmatch(os.path.basename(frame.file)):
        return (CACHED,)
    if settable := [trait for part, trait in _SETTABLE if part in frame.file]:
        return tuple(settable)
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


def _counted() -> dict[int, tuple[int, int]]:
    import torch

    counted = {}
    for gpu in range(torch.cuda.device_count()):
        figures = torch.cuda.memory_stats(gpu)
        counted[gpu] = figures.get("requested_bytes.all.peak", 0), figures.get("reserved_bytes.all.peak", 0)
    return counted


def _allocator(journal: Journal) -> dict[str, str]:
    """Which the process has, whoever has chosen it, and PyTorch's settings."""
    import torch

    if journal.is_enabled():
        return {"allocator": "frugal", "settings": ""}
    # Of PyTorch before 2.2 the environment alone is known.
    known = torch.cuda.memory._snapshot().get("allocator_settings", {})
    settings = known.get("PYTORCH_CUDA_ALLOC_CONF", os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""))
    expands = known.get("expandable_segments", "expandable_segments:True" in settings)
    return {"allocator": "expandable" if expands else "native", "settings": settings}


def _guesses() -> list[str]:
    """What the simulated GPU has made up, if it has."""
    guesses = sys.modules.get("frugal_simulated_values.guesses")
    return guesses.sentences() if guesses is not None else []


def _managed() -> dict[int, int]:
    import torch

    try:
        managed = machine.function("memory_managed")
    except machine.ABSENT:
        return {}
    return {gpu: managed(gpu) for gpu in range(torch.cuda.device_count())}


def _not_simulated() -> list[str]:
    """The functions of CUDA and its libraries that were called and that the simulated machine does not have."""
    try:
        return machine.function("unsupported_functions")().decode().split()
    except machine.ABSENT:
        return []
