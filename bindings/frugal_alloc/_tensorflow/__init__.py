"""What TensorFlow itself writes about its memory, read into a report.

:func:`from_log` reads the dump that its BFC allocator logs when memory runs out; :func:`from_profile` reads the memory
profile of its profiler. docs/reports.md says which versions write them how. Imports from ``_amounts``, ``_report``
and ``_trend``.
"""

from __future__ import annotations

from .artefact import NotAnArtefact
from .log import from_log
from .profile import from_profile

__all__ = ["NotAnArtefact", "from_log", "from_profile"]
