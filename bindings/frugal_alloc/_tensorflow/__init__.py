"""What TensorFlow itself writes about its memory, read into a report.

:func:`from_log` reads the dump that its BFC allocator logs when memory runs out, and the memory that a training prints;
:func:`from_xplane` reads the profile that its profiler writes, and :func:`from_profile` what TensorBoard makes of that.
docs/reports.md says which versions write them how. Imports from ``_amounts``, ``_report`` and ``_trend``.
"""

from __future__ import annotations

from .artefact import NotAnArtefact
from .log import from_log
from .profile import from_profile
from .xplane import from_xplane, is_xplane

__all__ = ["NotAnArtefact", "from_log", "from_profile", "from_xplane", "is_xplane"]
