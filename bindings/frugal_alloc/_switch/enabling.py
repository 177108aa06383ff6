"""Switches the allocator on and off: what the package's functions of these names do."""

from __future__ import annotations

import os

from .. import _native, _out_of_memory, _tracking
from .._report import live_verdicts
from . import all_reduce, communicators, memory_saver, pytorch


def enable(settings: str, suppressions: str | os.PathLike[str] | None = None) -> None:
    """See :func:`frugal_alloc.enable`; `settings` are "key:value,key:value", `suppressions` the file among them."""
    if suppressions is not None:
        # Refused before anything changes.
        _tracking.check_suppressions(os.fspath(suppressions))
    library = _native.load()
    pytorch.move_before_sharing(library)
    pytorch.follow_settings(library)
    pytorch.note_received()
    all_reduce.copy_inputs()
    memory_saver.stand_in()
    if library.is_enabled():
        if settings:
            library.enable(settings)
        _follow(library)
        return
    recorded = pytorch.recorded_history()
    library.enable(settings)
    if library.setting("remap") != "off":
        pytorch.leave_out_registration()
    communicators.make_room_for(library)
    if recorded is not None:
        pytorch.record_history_of_ours(library, recorded)
    try:
        _follow(library)
    except _native.FrugalAllocError:
        library.disable()
        raise
    pytorch.warn_of_unfollowed(library)


def disable(library: _native.Library) -> None:
    """See :func:`frugal_alloc.disable`."""
    library.disable()
    _tracking.pause()
    _out_of_memory.stop()


def _follow(library: _native.Library) -> None:
    if _tracking.start(library):
        from .._report import files

        files.write_at_exit()
        live_verdicts.start(library)
    _out_of_memory.start(library)
