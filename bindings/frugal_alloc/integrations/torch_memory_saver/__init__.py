"""The interface of the library torch_memory_saver on frugal_alloc's ``tag()``, ``sleep()`` and ``wake()``.

While frugal_alloc is enabled, ``import torch_memory_saver`` finds this module where that library is not installed, or
where FRUGAL_TORCH_MEMORY_SAVER=1 has it give way. What is different:

- A region's memory is ordinary memory of frugal_alloc, which needs neither a pool nor LD_PRELOAD: both of the library's
  ``hook_mode`` are the same here. All cached memory that is free goes back to the driver at each ``pause()``.
- To pause what is paused, or to resume what is not, does nothing; the library ends the process.
- A CUDA graph's memory sleeps with the setting ``pools:mapped``, and is copied in any case. Without it ``cuda_graph()``
  captures as ``torch.cuda.graph`` does, and warns once.
- With TMS_INIT_ENABLE=1 a pause and a resume without a tag are of all memory. What lies outside regions is copied.
- There are no backups on disk.

Any thread may call all of it. Errors are FrugalAllocError.
"""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch

import frugal_alloc
from frugal_alloc import FrugalAllocError

from ... import _native
from ..._common import startup

__all__ = ["TorchMemorySaver", "configure_subprocess", "torch_memory_saver"]

_DEFAULT = "default"
# The tag of what is allocated within disable().
_STAYS_AWAKE = "torch_memory_saver.disable()"


class TorchMemorySaver:
    """What programs use of it is the object ``torch_memory_saver``."""

    #: "preload" or "torch"; it makes no difference.
    hook_mode = "preload"

    def __init__(self) -> None:
        # By frugal_alloc's tag for the memory of regions: their own, and where copies lie ("": there are none).
        self._regions: dict[str, tuple[str, str]] = {}
        self._stays_awake: set[str] = set()
        self._backend = os.environ.get("TMS_INIT_CPU_BACKUP_BACKEND", "pinned")
        self._has_everything = _is_on("TMS_INIT_ENABLE")
        #: Copies in pinned memory are kept for the next pause whatever it says, until ``torch.cuda.empty_cache()``.
        self.retain_cpu_backup = _is_on("TMS_RETAIN_CPU_BACKUP")
        if _is_on("TMS_INIT_ENABLE_DISK_BACKUP"):
            self.set_disk_backup_dir("")

    @property
    def enabled(self) -> bool:
        return frugal_alloc.is_enabled()

    @contextlib.contextmanager
    def region(
        self,
        tag: str = _DEFAULT,
        enable_cpu_backup: bool = False,
        enable_disk_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """What this thread allocates within it can be paused. Regions may be nested: the innermost counts.

        Args:
            tag: What ``pause`` and ``resume`` call it.
            enable_cpu_backup: Whether contents are copied to the CPU and back. Else they are lost with a pause.
            enable_disk_backup: Not offered.
            cpu_backup_backend: "pinned", or "mmap" for ordinary host memory, which resuming gives up. A pause that
                covers both takes ordinary memory for all.
        """
        if enable_disk_backup:
            self.set_disk_backup_dir("")
        if cpu_backup_backend is not None and not enable_cpu_backup:
            raise ValueError("cpu_backup_backend needs enable_cpu_backup=True")
        if not self.enabled:
            raise FrugalAllocError("torch_memory_saver's stand-in needs frugal_alloc: call frugal_alloc.enable() first")
        tag = tag or _DEFAULT
        name = tag if enable_cpu_backup else f"{tag} (not copied)"
        self._regions[name] = (tag, (cpu_backup_backend or self._backend) if enable_cpu_backup else "")
        with frugal_alloc.tag(name):
            yield

    @contextlib.contextmanager
    def cuda_graph(
        self,
        cuda_graph: torch.cuda.CUDAGraph,
        pool: Any = None,
        stream: torch.cuda.Stream | None = None,
        capture_error_mode: str = "global",
        tag: str = _DEFAULT,
        enable_cpu_backup: bool = False,
        cpu_backup_backend: str | None = None,
    ) -> Iterator[None]:
        """``torch.cuda.graph``, of which all memory is paused with this tag."""
        if _native.required().setting("pools") != "mapped":
            _warn_of_pools()
        capture = torch.cuda.graph(cuda_graph, pool=pool, stream=stream, capture_error_mode=capture_error_mode)
        with self.region(tag, True, False, cpu_backup_backend), capture:
            yield

    @contextlib.contextmanager
    def disable(self) -> Iterator[None]:
        """What this thread allocates within it stays awake. What it has freed by the end goes back to the driver."""
        self._stays_awake.add(_STAYS_AWAKE)
        with frugal_alloc.tag(_STAYS_AWAKE):
            yield
        torch.cuda.empty_cache()

    def pause(self, tag: str | None = None) -> None:
        """Gives back the memory of the regions with this tag; None: of all. Tensors keep their addresses."""
        chosen = self._chosen(tag)
        has_all = self._has_everything and not tag
        if chosen or has_all:
            backends = {backend for _, backend in chosen.values()} | ({self._backend} if has_all else set())
            frugal_alloc.sleep(
                tags=None if has_all else chosen,
                keep=self._stays_awake if has_all else (),
                drop=[name for name, (_, backend) in chosen.items() if not backend],
                host="pageable" if "mmap" in backends else "pinned",
            )
        torch.cuda.empty_cache()

    def resume(self, tag: str | None = None) -> None:
        """Gives the regions with this tag memory again; None: all. What was copied is there again."""
        chosen = self._chosen(tag)
        has_all = self._has_everything and not tag
        if chosen or has_all:
            frugal_alloc.wake(None if has_all else chosen)

    def _chosen(self, tag: str | None) -> dict[str, tuple[str, str]]:
        if tag == _DEFAULT and self._has_everything:
            raise FrugalAllocError(
                "TMS_INIT_ENABLE=1: memory outside regions has no tag; call pause() and resume() without one"
            )
        return {name: region for name, region in self._regions.items() if not tag or region[0] == tag}

    def get_cpu_backup(self, x: torch.Tensor, zero_copy: bool = False) -> torch.Tensor | None:
        """The contents of a paused tensor in ordinary memory, a copy of its own in any case; None: it is not paused."""
        if not x.is_contiguous():
            raise FrugalAllocError("get_cpu_backup() needs a tensor that is contiguous")
        copy = torch.empty(x.shape, dtype=x.dtype)
        offset = x.storage_offset() * x.element_size()
        # x itself can tell no address while it sleeps.
        storage = x.untyped_storage()._cdata
        is_asleep = _native.required().copy_asleep(storage, offset, x.nbytes, copy.data_ptr())
        return copy if is_asleep else None

    @property
    def memory_margin_bytes(self) -> int:
        raise NotImplementedError("memory_margin_bytes can be set, and not be asked for")

    @memory_margin_bytes.setter
    def memory_margin_bytes(self, value: int) -> None:
        """Bytes of each GPU that are left free as long as something else can serve a request: ``driver_reserve``."""
        _native.required().enable(f"driver_reserve:{value}")

    def set_disk_backup_dir(self, path: str) -> None:
        raise FrugalAllocError("torch_memory_saver's stand-in has no backups on disk; use enable_cpu_backup=True")


@contextlib.contextmanager
def configure_subprocess() -> Iterator[None]:
    """Python processes that are started within it have frugal_alloc enabled once they have imported torch."""
    changed = {name: os.environ[name] for name in ("PYTHONPATH", "FRUGAL_START") if name in os.environ}
    startup.add("allocator", changed)
    changed["FRUGAL_ALLOC"] = "1"
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true", "yes")


@functools.cache
def _warn_of_pools() -> None:
    with contextlib.suppress(RuntimeWarning):
        warnings.warn(
            "torch_memory_saver.cuda_graph(): frugal_alloc leaves the private pools of CUDA graphs awake without "
            "FRUGAL_ALLOC_CONF=pools:mapped",
            RuntimeWarning,
            stacklevel=4,
        )


torch_memory_saver = TorchMemorySaver()
