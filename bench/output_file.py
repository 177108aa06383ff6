"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


class NotWritable(Exception):
    """A file cannot be written; the message says which, and why."""


def check(path: Path) -> None:
    """Raises NotWritable where it is plain that write() would fail: before an hour of measuring rather than after."""
    if path.is_dir():
        raise NotWritable(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise NotWritable(f"{path.parent} is not a folder")
    if not os.access(path.parent, os.W_OK):
        raise NotWritable(f"no files can be written in {path.parent}")


def write(path: Path, text: str) -> None:
    """Puts a file with this text at the path, in the place of one that is there; on failure that stays as it was.

    Raises:
        NotWritable: it did not work.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise NotWritable(f"{path} cannot be written: {error.strerror}") from None
