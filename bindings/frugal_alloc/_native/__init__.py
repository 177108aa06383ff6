"""The native library of this package, for the torch that is installed: found, checked, loaded and called.

Importing this room imports neither torch nor the library; :func:`load` does both. ``Library`` has the library's
functions, by concern from the modules.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import re
import sys
import threading
from collections.abc import Callable
from ctypes import POINTER, c_char_p, c_int, c_int64, c_uint64, c_void_p
from typing import Any

from .. import _interruptions
from . import epochs, out_of_memory
from .epochs import EpochFunctions
from .journal import JournalFunctions
from .memory import FrugalAllocError, MemoryFunctions, PublishedVerdict, PublishedVerdictInC, encode
from .out_of_memory import OutOfMemoryFunctions
from .sleep import SleepFunctions

__all__ = ["FrugalAllocError", "Library", "PublishedVerdict", "load", "loaded", "required"]

# Functions by their result and arguments, as bindings/c_api/c_api.h declares them.
_FUNCTIONS: dict[tuple[Any, ...], str] = {
    (c_char_p,): "last_error settings stat_names site_usages gpus segments private_pools findings journal_texts asleep",
    (c_char_p, c_void_p): "asleep_block",
    (c_char_p, c_char_p): "setting unfollowed_settings shown_settings wake",
    (c_char_p, c_char_p, c_char_p, c_char_p, c_char_p, c_int, POINTER(c_void_p), c_int64): "sleep_held",
    (c_char_p, c_int): "broken_promise host_memory phase_name site",
    (c_int,): "built_torch_version running_torch_version disable is_enabled epoch_end collapse_epochs halve_epochs "
    "journal_start journal_observe_simulation take_look make_room untag",
    (c_int, c_char_p): "enable_with phase journal_write follow_settings tag tag_number",
    (c_int, c_char_p, c_char_p, c_int): "read_python",
    (c_int, c_int): "set_phase expect_growth cuda_malloc follow_contexts",
    (c_int, c_int, POINTER(c_int64), c_int): "stats",
    (c_int, c_void_p): "owns await_shareable make_shareable owns_its_memory",
    (c_int, c_void_p, c_char_p): "retag mark_asleep",
    (c_int, c_void_p, c_int64, c_int): "keep_in_place",
    (c_int, c_void_p, c_int64, c_void_p, c_void_p, c_int): "find_context",
    (c_int, c_void_p, c_int64, c_int64, c_void_p): "copy_asleep",
    (c_int64, c_char_p): "tagged_bytes",
    (c_int64,): "release_idle sites_left_out epochs_ended module_calls_to_epoch journal_module_calls",
    (c_int64, c_int, POINTER(c_int64), POINTER(c_int64)): "take_peak",
    (c_int64, c_int64, c_void_p, c_int64): "journal_read",
    (None,): "forget_python record_in_detail",
    (None, c_char_p): "set_code_owners journal_mark",
    (None, c_int): "set_history_only_ours restart_site_peaks count_module_calls",
    (None, c_int, c_char_p): "correct_verdict",
    (None, c_uint64, c_char_p): "journal_label",
    (None, out_of_memory.GARBAGE_COLLECTOR): "set_garbage_collector",
    (None, out_of_memory.EXPLAINER): "set_explainer",
    (None, epochs.SCHEDULE, epochs.LISTENER): "set_epoch_listener",
    (None, POINTER(PublishedVerdictInC), c_int): "publish_verdicts",
}


class Library(MemoryFunctions, EpochFunctions, OutOfMemoryFunctions, JournalFunctions, SleepFunctions):
    """The functions of the library, for Python. May be called from any thread."""

    def __init__(self, path: str) -> None:
        """Loads the library at `path`; torch must have been imported before, so that its libraries are there."""
        self._library = ctypes.CDLL(path)
        for (result, *arguments), names in _FUNCTIONS.items():
            for name in names.split():
                function = getattr(self._library, f"frugal_{name}")
                function.restype, function.argtypes = result, arguments
        self._use_with_lock(path)
        # Kept for as long as the library may call it.
        collector = out_of_memory.Collector(self._allocated)
        self._collector = out_of_memory.GARBAGE_COLLECTOR(_interruptions.callback(collector.collect, otherwise=0))

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

    def _setting(self, text: bytes | None) -> str:
        if text is None:
            raise self._failure()
        return text.decode(errors="surrogateescape")

    def forget_python(self) -> None:
        """The interpreter is about to end."""
        self._library.frugal_set_garbage_collector(out_of_memory.GARBAGE_COLLECTOR())
        self._library.frugal_set_explainer(out_of_memory.EXPLAINER())
        self._library.frugal_set_epoch_listener(epochs.SCHEDULE(), epochs.LISTENER())
        self._library.frugal_forget_python()

    def torch_versions(self) -> tuple[int, int]:
        """The torch that the library was built for and the one that runs, as 211 for 2.11; 0 if unknown."""
        return self._library.frugal_built_torch_version(), self._library.frugal_running_torch_version()


# Those that Python calls as C does: bindings/c_api/c_api.h says what they do. By what is made of the result.
_FORWARDED: dict[Callable[[Library, Any], Any], str] = {
    Library._check: "collapse_epochs cuda_malloc disable epochs_ended follow_contexts halve_epochs "
    "journal_module_calls keep_in_place module_calls_to_epoch release_idle sites_left_out tag tag_number untag",
    Library._is_so: "copy_asleep follow_settings is_enabled journal_observe_simulation mark_asleep owns "
    "owns_its_memory retag take_look",
    Library._text: "broken_promise host_memory shown_settings unfollowed_settings",
    Library._setting: "setting settings",
    Library._answer: "gpus journal_texts",
    lambda *_: None: "correct_verdict count_module_calls journal_label journal_mark make_room record_in_detail "
    "restart_site_peaks set_history_only_ours",
}


def _forwarding(name: str, make: Callable[[Library, Any], Any]) -> Callable[..., Any]:
    def call(self: Library, *arguments: Any) -> Any:
        function = getattr(self._library, f"frugal_{name}")
        return make(self, function(*(encode(one) if isinstance(one, str) else one for one in arguments)))

    return call


for _make, _names in _FORWARDED.items():
    for _name in _names.split():
        setattr(Library, _name, _forwarding(_name, _make))

# --- Loading it.

_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


# In a child by fork, the thread of the parent's that held it is not there.
os.register_at_fork(after_in_child=_renew_lock)

_loaded: Library | None = None


def loaded() -> Library | None:
    """The library, if :func:`load` has been called; or the one that LD_PRELOAD has enabled."""
    if _loaded is None and "torch" in sys.modules and "frugal_alloc_preload.so" in os.environ.get("LD_PRELOAD", ""):
        # Where there is nothing to load, nothing was enabled.
        with contextlib.suppress(FrugalAllocError):
            load()
    return _loaded


def required() -> Library:
    """The library, for what cannot be done without it.

    Raises:
        FrugalAllocError: frugal_alloc was never enabled.
    """
    library = loaded()
    if library is None:
        raise FrugalAllocError("frugal_alloc is not enabled: call frugal_alloc.enable() first")
    return library


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
    from .._common import installation

    try:
        torch = installation.find_cuda_torch()
        path = installation.find_library("alloc", torch)
    except installation.MissingPart as missing:
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
