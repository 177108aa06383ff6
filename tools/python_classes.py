"""Python classes with more public functions than a reader keeps in mind."""

from __future__ import annotations
