"""The native library with all its functions."""

from __future__ import annotations

import ctypes

from .. import _interruptions
from . import epochs, garbage, journal, memory, out_of_memory, publishing, sites
from .calls import FrugalAllocError
from .epochs import EpochFunctions
from .journal import JournalFunctions
from .memory import MemoryFunctions
from .out_of_memory import OutOfMemoryFunctions
from .publishing import PublishingFunctions

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
    "frugal_set_garbage_collector": (None, _GARBAGE_COLLECTOR),
    "frugal_set_history_only_ours": (None, ctypes.c_int),
    **memory.FUNCTIONS,
    **sites.FUNCTIONS,
    **epochs.FUNCTIONS,
    **out_of_memory.FUNCTIONS,
    **journal.FUNCTIONS,
    **publishing.FUNCTIONS,
}


class Library(MemoryFunctions, EpochFunctions, OutOfMemoryFunctions, JournalFunctions, PublishingFunctions):
    """The functions of the library, for Python. May be called from any thread."""

    def __init__(self, path: str) -> None:
        """Loads the library at `path`; torch must have been imported before, so that its libraries are there."""
        self._library = ctypes.CDLL(path)
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype = result
            function.argtypes = arguments
        self._use_with_lock(path)
        # Kept for as long as the library may call it.
        collector = garbage.Collector(self._allocated)
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
            raise self._failure()
        return text.decode(errors="surrogateescape")

    def setting(self, key: str) -> str:
        """One setting's value in force, as FRUGAL_ALLOC_CONF has it."""
        value = self._library.frugal_setting(key.encode())
        if value is None:
            raise self._failure()
        return value.decode(errors="surrogateescape")

    def unfollowed_settings(self, settings: str | None = None) -> str:
        """A warning that names those of PyTorch's settings (None: the environment's) that do not hold for our memory;
        each is named once in the life of the process. "" if there are none."""
        return self._library.frugal_unfollowed_settings(None if settings is None else settings.encode()).decode()

    def set_history_only_ours(self, value: bool) -> None:
        self._library.frugal_set_history_only_ours(value)

    def forget_python(self) -> None:
        """The interpreter is about to end."""
        self._library.frugal_set_garbage_collector(_GARBAGE_COLLECTOR())
        self._library.frugal_set_explainer(out_of_memory.EXPLAINER())
        self._library.frugal_set_epoch_listener(epochs.SCHEDULE(), epochs.LISTENER())
        self._library.frugal_forget_python()

    def torch_versions(self) -> tuple[int, int]:
        """The torch that the library was built for and the one that runs, as 211 for 2.11; 0 if unknown."""
        return self._library.frugal_built_torch_version(), self._library.frugal_running_torch_version()
