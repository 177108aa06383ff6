"""Sleep mode of vLLM on frugal_alloc: a backend, and what its workers allocate weights and caches with.

vLLM finds it by the entry point ``vllm.general_plugins``. While frugal_alloc is enabled (``FRUGAL_ALLOC=1``), the
memory of ``--enable-sleep-mode`` is frugal_alloc's, whichever backend is chosen; ``--sleep-mode-backend frugal_alloc``
names it, and is refused where it is not enabled. Else vLLM is as ever; so it is with a VLLM_PLUGINS that leaves it out.

Memory of CUDA graphs sleeps with the setting ``pools:mapped``, and stays awake without. Written from vLLM's interface;
vLLM itself was not run with it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import torch

import frugal_alloc

from .. import _native
from .._switch import pytorch
from ._following import missing

try:
    import vllm.device_allocator as vllm_allocators
except ImportError:
    raise missing("vllm", "vllm") from None
try:
    from vllm.device_allocator.sleep_mode_backend import SleepModeBackend, SleepModeBackendFactory
except ImportError:  # vLLM has had backends since 2026
    SleepModeBackend, SleepModeBackendFactory = object, None

_DEFAULT = "default"
_GRAPHS = "cuda_graphs"
_NAME = "frugal_alloc"


def register() -> None:
    """For vLLM, which calls it in each of its processes, and may do so twice."""
    if SleepModeBackendFactory is not None:
        # It has one of the name.
        with contextlib.suppress(ValueError):
            SleepModeBackendFactory.register_backend(_NAME, __name__, "FrugalAllocBackend")
    # The function is the first one's, and the second may have imported it by its name.
    for module in (vllm_allocators, sys.modules.get("vllm.v1.worker.gpu_worker")):
        pytorch.replace(module, "get_mem_allocator_instance", lambda theirs: lambda: ours() if _serves() else theirs())


# As it was when it was first asked: what one of the two has put to sleep the other cannot wake.
_serves = functools.cache(frugal_alloc.is_enabled)


class Allocator:
    """Stands in for vLLM's CuMemAllocator. What a pool of vLLM's would hold is ordinary memory that has a tag.

    Each call sees to all that it names or, with FrugalAllocError (a RuntimeError), to nothing.
    """

    def __init__(self) -> None:
        self._tags: set[str] = set()
        # Of those that sleep: to drop them later would lose what vLLM expects to have again.
        self._copied: set[str] = set()
        self._graph_pool: Any = None

    @contextlib.contextmanager
    def use_memory_pool(self, tag: str | None = None) -> Iterator[None]:
        """What this thread allocates within it has the tag."""
        tag = tag or _DEFAULT
        self._tags.add(tag)
        with frugal_alloc.tag(tag):
            yield

    @contextlib.contextmanager
    def use_cudagraph_pool(self, pool: Any = None) -> Iterator[Any]:
        """The pool that vLLM captures all graphs into. With ``pools:mapped`` it sleeps as well, always with a copy, and
        any wake_up() wakes it: vLLM names no tag of graphs."""
        self._graph_pool = pool or self._graph_pool or torch.cuda.graph_pool_handle()
        is_mapped = _native.required().setting("pools") == "mapped"
        with self.use_memory_pool(tag=_GRAPHS) if is_mapped else contextlib.nullcontext():
            yield self._graph_pool

    def release_cudagraph_pool(self, *_: Any) -> None:
        self._graph_pool = None

    def sleep(self, offload_tags: tuple[str, ...] | str | None = None) -> None:
        """Gives back the memory of all tags, and copies that of `offload_tags` to the host before ("default")."""
        self._sleep(self._tags, self._tags - _names(_DEFAULT if offload_tags is None else offload_tags))

    def discard(self, tags: tuple[str, ...] | str) -> None:
        """Gives back the memory of these tags, without a copy of what was awake."""
        self._sleep(self._tags & _names(tags), _names(tags))

    def _sleep(self, tags: set[str], dropped: set[str]) -> None:
        dropped = tags & dropped - self._copied - {_GRAPHS}
        self._call("run_before_unmap_hooks", tags)
        try:
            frugal_alloc.sleep(
                tags,
                drop=dropped,
                host="pageable" if _is_on("VLLM_SLEEP_MODE_RELEASE_HOST_MEMORY") else "pinned",
                check="poison" if _is_on("VLLM_POISON_DISCARDED_PAGES") else None,
            )
        finally:
            # Of what is awake all the same: it failed, or shares its pages with others.
            self._call("run_after_map_hooks")
        self._copied |= tags - dropped
        # As vLLM's own does.
        gc.collect()
        torch.cuda.empty_cache()

    def wake_up(self, tags: list[str] | None = None) -> None:
        """Gives them memory again, all tags for None, and what was copied."""
        woken = self._tags if tags is None else self._tags & {*tags, _GRAPHS}
        frugal_alloc.wake(woken)
        self._copied -= woken
        self._call("run_after_map_hooks")

    def get_current_usage(self) -> int:
        """Bytes that are allocated with one of the tags, awake or asleep."""
        return _native.required().tagged_bytes(self._tags)

    def asleep(self) -> set[str]:
        """The tags of what sleeps."""
        return self._tags & frugal_alloc.asleep().keys()

    def _call(self, hooks: str, *tags: set[str]) -> None:
        # Others' registrations of this memory, in newer vLLM.
        if run := getattr(vllm_allocators, hooks, None):
            asleep = self.asleep()
            run([SimpleNamespace(tag=tag, is_asleep=tag in asleep) for tag in self._tags], *tags)


ours = functools.cache(Allocator)


class FrugalAllocBackend(SleepModeBackend):
    """``--sleep-mode-backend frugal_alloc``. Its methods are called in one thread at a time."""

    def suspend(self, level: int = 1) -> None:
        """Gives back all memory of the tags. Level 1 copies weights to the host, level 2 drops them, too."""
        ours().sleep(("weights",) if level == 1 else ())

    def resume(self, tags: list[str] | None = None) -> None:
        ours().wake_up(tags)

    def discard(self, tags: tuple[str, ...]) -> None:
        ours().discard(tags)

    def state(self) -> str:
        """ "SUSPENDED" as long as anything sleeps."""
        return "SUSPENDED" if ours().asleep() else "RUNNING"

    @classmethod
    def is_supported(cls) -> bool:
        return frugal_alloc.is_enabled()

    @classmethod
    def preserves_communicators(cls) -> bool:
        return True

    @classmethod
    def preserves_compiled_artifacts(cls) -> bool:
        return True


def _names(tags: Iterable[str] | str) -> set[str]:
    return {tags} if isinstance(tags, str) else set(tags)


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true")
