"""Messages from the processes of a program to the command that follows it: lines of JSON in files of a folder."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

_SUFFIX = ".messages"


class Sender:
    """Of a process; a child by fork has a file of its own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = Path()
        self._process = 0

    def send(self, message: dict[str, Any]) -> None:
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

    def new(self) -> list[dict[str, Any]]:
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
