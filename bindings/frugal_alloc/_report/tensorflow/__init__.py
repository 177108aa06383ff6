"""What TensorFlow itself writes about its memory, read into a report.

:func:`from_log` reads the dump that its BFC allocator logs when memory runs out, and the memory that a training prints.
tests/reports/tensorflow/README.md says which versions write them how.
"""

from __future__ import annotations

from .log import PROFILE_IS_NOT_READ, NotAnArtefact, from_log, is_profile

__all__ = ["PROFILE_IS_NOT_READ", "NotAnArtefact", "from_log", "is_profile"]
