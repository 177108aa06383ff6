"""The native library of this package, for the torch that is installed: found, checked, loaded and called.

Importing this module imports neither torch nor the library; :func:`load` does both.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import re
import sys
import threading

from . import _garbage, _interruptions, _sites


class FrugalAllocError(RuntimeError):
    """frugal_alloc cannot do what was asked. The message is one line that says why and what to do; PyTorch goes on as
    it was."""


_GARBAGE_COLLECTOR = ctypes.CFUNCTYPE(ctypes.c_int)

# Result and arguments of each function, as bindings/c_api/c_api.h declares them.
_FUNCTIONS = {
    "frugal_last_error": (ctypes.c_char_p,),
    "frugal_built_torch_version": (ctypes.c_int,),
    "frugal_running_torch_version": (ctypes.c_int,),
    "frugal_enable_with": (ctypes.c_int, ctypes.c_char_p),
    "frugal_disable": (ctypes.c_int,),
    "frugal_settings": (ctypes.c_char_p,),
    "frugal_setting": (ctypes.c_char_p, ctypes.c_char_p),
    "frugal_unfollowed_settings": (ctypes.c_char_p, ctypes.c_char_p),
    "frugal_is_enabled": (ctypes.c_int,),
    "frugal_trim": (ctypes.c_int64,),
    "frugal_release_idle": (ctypes.c_int64,),
    "frugal_stat_names": (ctypes.c_char_p,),
    "frugal_stats": (ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_int),
    "frugal_broken_promise": (ctypes.c_char_p, ctypes.c_int),
    "frugal_host_memory": (ctypes.c_char_p, ctypes.c_int),
    "frugal_owns": (ctypes.c_int, ctypes.c_void_p),
    "frugal_keep_in_place": (ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int),
    "frugal_await_shareable": (ctypes.c_int, ctypes.c_void_p),
    "frugal_make_shareable": (ctypes.c_int, ctypes.c_void_p),
    "frugal_set_garbage_collector": (None, _GARBAGE_COLLECTOR),
    "frugal_set_history_only_ours": (None, ctypes.c_int),
} | _sites.FUNCTIONS

# What frugal_make_shareable answers then.
_OUT_OF_MEMORY = -2

_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


# In a child by fork, the thread of the parent's that held it is not there.
os.register_at_fork(after_in_child=_renew_lock)

_loaded: Library | None = None


class Library(_sites.SiteFunctions):
    """The functions of the library, for Python. May be called from any thread."""

    def __init__(self, path: str) -> None:
        """Loads the library at `path`; torch must have been imported before, so that its libraries are there."""
        self._library = ctypes.CDLL(path)
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype = result
            function.argtypes = arguments
        self._library_with_gil = ctypes.PyDLL(path)
        self._library_with_gil.frugal_make_shareable.argtypes = [ctypes.c_void_p]
        # Kept for as long as the library may call it.
        collector = _garbage.Collector(self._allocated)
        self._collector = _GARBAGE_COLLECTOR(_interruptions.callback(collector.collect, otherwise=0))

    def _allocated(self) -> list[int]:
        """Bytes on each GPU."""
        return [self.stats(gpu)["allocated_bytes"] for gpu in self.gpus()]

    def enable(self, settings: str = "") -> None:
        """`settings`: "key:value,key:value", on top of those in force."""
        try:
            # A folder's name may be bytes that are no text, which Python marks as surrogates.
            encoded = settings.encode(errors="surrogateescape")
        except UnicodeEncodeError:
            raise FrugalAllocError(f"{settings!r:.200} is not possible: it cannot be encoded") from None
        self._check(self._library.frugal_enable_with(encoded))
        self._library.frugal_set_garbage_collector(self._collector)
        self.read_python()

    def disable(self) -> None:
        self._check(self._library.frugal_disable())

    def is_enabled(self) -> bool:
        return bool(self._library.frugal_is_enabled())

    def settings(self) -> str:
        """Every setting in force, as "key:value,key:value"."""
        text = self._library.frugal_settings()
        if text is None:
            raise FrugalAllocError(self._library.frugal_last_error().decode(errors="replace"))
        return text.decode(errors="surrogateescape")

    def setting(self, key: str) -> str:
        """One setting's value in force, as FRUGAL_ALLOC_CONF has it."""
        value = self._library.frugal_setting(key.encode())
        if value is None:
            raise FrugalAllocError(self._library.frugal_last_error().decode(errors="replace"))
        return value.decode(errors="surrogateescape")

    def unfollowed_settings(self, settings: str | None = None) -> str:
        """A warning that names those of PyTorch's settings (None: the environment's) that do not hold for our memory;
        each is named once in the life of the process. "" if there are none."""
        return self._library.frugal_unfollowed_settings(None if settings is None else settings.encode()).decode()

    def trim(self) -> int:
        return self._check(self._library.frugal_trim())

    def release_idle(self) -> int:
        """What the setting idle_release does at the end of each interval: returns the bytes that went."""
        return self._check(self._library.frugal_release_idle())

    def stats(self, device: int) -> dict[str, int]:
        figures = (ctypes.c_int64 * len(self._stat_names))()
        self._check(self._library.frugal_stats(device, figures, len(figures)))
        return dict(zip(self._stat_names, figures, strict=True))

    def broken_promise(self, device: int) -> str:
        """What a GPU's driver promises and does not keep, and what is lost by it; "" if nothing is known."""
        return self._library.frugal_broken_promise(device).decode(errors="replace")

    def host_memory(self, device: int) -> str:
        """Where the memory of a GPU that has been used is the host's: how much can be had, and who has the rest."""
        return self._library.frugal_host_memory(device).decode(errors="replace")

    def owns(self, address: int) -> bool:
        """Whether the address lies in our memory."""
        return bool(self._library.frugal_owns(address))

    def keep_in_place(self, address: int, size: int, keep: bool) -> None:
        """From now on the physical memory of a range stays where it is, or may move again."""
        self._check(self._library.frugal_keep_in_place(address, size, keep))

    def make_shareable(self, storage: int) -> None:
        """Moves the bytes of a storage (``UntypedStorage._cdata``) to where another process can open them, if need be.

        The GPU's work is waited for without the interpreter's lock, which that work may need. The lock is held while
        the bytes move, so that no other thread of Python's can begin to use the storage.
        """
        self._check(self._library.frugal_await_shareable(storage))
        moved = self._library_with_gil.frugal_make_shareable(storage)
        if moved == _OUT_OF_MEMORY:
            import torch

            raise torch.OutOfMemoryError(self._library.frugal_last_error().decode(errors="replace"))
        self._check(moved)

    def set_history_only_ours(self, value: bool) -> None:
        self._library.frugal_set_history_only_ours(value)

    def forget_python(self) -> None:
        """The interpreter is about to end."""
        self._library.frugal_set_garbage_collector(_GARBAGE_COLLECTOR())
        self._library.frugal_set_explainer(_sites.EXPLAINER())
        self._library.frugal_set_epoch_listener(_sites.SCHEDULE(), _sites.LISTENER())
        self._library.frugal_forget_python()

    def torch_versions(self) -> tuple[int, int]:
        """The torch that the library was built for and the one that runs, as 211 for 2.11; 0 if unknown."""
        return self._library.frugal_built_torch_version(), self._library.frugal_running_torch_version()

    @functools.cached_property
    def _stat_names(self) -> list[str]:
        return self._library.frugal_stat_names().decode().split()

    def _check(self, result: int) -> int:
        if result < 0:
            raise FrugalAllocError(self._library.frugal_last_error().decode(errors="replace"))
        return result


def loaded() -> Library | None:
    """The library, if :func:`load` has been called; or the one that LD_PRELOAD has enabled."""
    if _loaded is None and "torch" in sys.modules and "frugal_alloc_preload.so" in os.environ.get("LD_PRELOAD", ""):
        # Where there is nothing to load, nothing was enabled.
        with contextlib.suppress(FrugalAllocError):
            load()
    return _loaded


def load() -> Library:
    """The library for the installed torch, loaded once.

    Raises:
        FrugalAllocError: there is no torch, or none with CUDA, or no library for this one.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
            atexit.register(_loaded.forget_python)
        return _loaded


def _load() -> Library:
    # Here, since importing frugal_alloc is to cost little: the hook does it in every process with FRUGAL_ALLOC=1.
    from . import _installation

    try:
        torch = _installation.find_cuda_torch()
        path = _installation.find_library("alloc", torch)
    except _installation.MissingPart as missing:
        raise FrugalAllocError(str(missing)) from None
    _import_torch()
    try:
        library = Library(str(path))
    except (OSError, AttributeError) as error:
        # The dynamic linker's words where the system's C or C++ library is too old.
        is_too_old = re.search(r"version `(GLIBC|GLIBCXX|CXXABI)_[\d.]+' not found", str(error))
        remedy = (
            "this system is older than the one that it was built on: build frugal_alloc from its source here, "
            "or use a newer system"
            if is_too_old
            else "install frugal_alloc again in this environment"
        )
        raise FrugalAllocError(
            f"{path.name} does not load beside PyTorch {torch.version} ({error}); {remedy}"
        ) from None
    built, running = library.torch_versions()
    # A library that was built for another minor may load, and would then misread every call.
    if running not in (0, built):
        raise FrugalAllocError(
            f"{path.name} was built for torch {built // 100}.{built % 100}, but torch {running // 100}.{running % 100} "
            "is running; install frugal_alloc again in this environment"
        )
    return library


def _import_torch() -> None:
    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FrugalAllocError(f"import torch fails here: {reason}") from None
