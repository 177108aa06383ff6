"""Reads a report from a file that somebody else may have made: checked, and without running anything of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._common import recorded_files, shapes
from .._common.messages import Refused
from .._planning.fit import verdict
from .._planning.fit.verdict import Verdict
from .._report import schema

# A report of 100,000 blocks has some 5 MB; a log of TensorFlow with several dumps some 100.
MOST_BYTES = 512 << 20


def verdicts_in(path: str | os.PathLike[str]) -> list[Verdict]:
    """Those that ``fit --json`` has printed; none where the file is another, or cannot be read.

    Raises:
        Refused: they are of another version, or damaged.
    """
    try:
        document = recorded_files.parse_values(recorded_files.read_bytes(Path(path), MOST_BYTES), Path(path))
    except recorded_files.UnreadableFile:
        return []
    # A report has verdicts, too, among much else.
    if not isinstance(document, dict) or document.keys() != {"version", "verdicts"}:
        return []
    try:
        return verdict.of_document(document)
    except shapes.Misshapen as error:
        raise Refused(f"{path}: {error}") from None


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The document in a file: a report of ours, or what a log of TensorFlow says, in the same form.

    Raises:
        Refused: there is no such file, or it is neither.
    """
    from .._report.tensorflow import log

    path = Path(path)
    try:
        data = recorded_files.read_bytes(path, MOST_BYTES)
        is_json = data.lstrip()[:1] in (b"{", b"[")
        document = recorded_files.parse_values(data, path) if is_json else None
        if log.is_profile(document if is_json else data):
            raise Refused(f"{path}: {log.PROFILE_IS_NOT_READ}")
        if not is_json:
            document = log.from_log(data.decode(errors="replace"), path.name)
        return schema.conform(document)
    except recorded_files.UnreadableFile as error:
        raise Refused(str(error)) from None
    except schema.BadDocument as error:
        raise Refused(f"{path}: {error}") from None
