"""What TensorFlow itself writes about its memory, read into a report.

:func:`from_log` reads the dump that its BFC allocator logs when memory runs out, and the memory that a training prints.
docs/reports.md says which versions write them how.
"""

from __future__ import annotations

from .artefact import PROFILE_IS_NOT_READ, NotAnArtefact, is_profile
from .log import from_log

__all__ = ["PROFILE_IS_NOT_READ", "NotAnArtefact", "from_log", "is_profile"]
