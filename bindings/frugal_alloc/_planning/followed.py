"""A program on the simulated GPU with somebody in it who follows its memory, for ``fit`` and ``check``.

The command runs the program (``following``) in the environment that ``put`` makes. Once PyTorch is imported there,
``_common.startup`` calls the ``start`` of the module that the order in it names. What that finds out it says in
messages: lines of JSON in files of a folder.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._common import startup

#: The variable with the order, in JSON.
ORDER = "FRUGAL_FOLLOW"
#: The variables with the settings of PyTorch's allocator; newer versions read the first.
SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_SUFFIX = ".messages"

Message = dict[str, Any]


def put(base: Mapping[str, str], follower: str, folder: str, allocator: str, **options: Any) -> dict[str, str]:
    """The environment of a program that is followed.

    Args:
        follower: The module in this package whose ``start`` is called once PyTorch is imported.
        folder: For the messages.
        allocator: "native", "expandable" or "frugal".
    """
    result = dict(base)
    result[ORDER] = json.dumps({"follower": follower, "folder": folder, "allocator": allocator, **options})
    if allocator == "expandable":
        for name in SETTINGS:
            kept = [part for part in result.get(name, "").split(",") if part and "expandable_segments" not in part]
            result[name] = ",".join([*kept, "expandable_segments:True"])
    startup.add("follower", result)
    return result


def order() -> Mapping[str, Any]:
    """That which this process was given, by the names of put()'s arguments."""
    return json.loads(os.environ[ORDER])


def start() -> tuple[Sender, Mapping[str, Any]]:
    """By whom this process is to be followed: enables the allocator if the order says so.

    Raises:
        FrugalAllocError: it cannot be enabled.
    """
    given = order()
    if given["allocator"] == "frugal":
        import frugal_alloc

        frugal_alloc.enable()
    return Sender(given["folder"]), given


class Sender:
    """Of a process; a child by fork has a file of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = Path()
        self._process = 0

    def send(self, message: Message) -> None:
        """
        Raises:
            OSError: it cannot be written.
        """
        if self._process != os.getpid():
            self._process = os.getpid()
            self._file = Path(self._folder, f"{secrets.token_hex(4)}-{self._process}{_SUFFIX}")
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(message) + "\n")


class Mailbox:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def new(self) -> list[Message]:
        """What came since the last call. Of a process that is writing, or was killed, half a message is none yet.

        Raises:
            ValueError: one is damaged.
        """
        messages = []
        for path in sorted(Path(self._folder).glob(f"*{_SUFFIX}")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                whole, end, _ = file.read().rpartition(b"\n")
            messages += [json.loads(line) for line in whole.split(b"\n") if line]
            self._read[path] = self._read.get(path, 0) + len(whole) + len(end)
        return messages
