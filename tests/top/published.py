"""Programs that publish, one line at a time: what they print is read, and they end when their input does."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import simulated_gpu

GIB = 1 << 30
MIB = 1 << 20

BEGIN = """
import json, os, sys
import torch, frugal_alloc
frugal_alloc.enable()
MIB = 1 << 20

def tensor(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")

def tell(**facts):
    print(json.dumps({"pid": os.getpid(), **facts}), flush=True)

def await_order():
    return sys.stdin.readline()

"""

# It leaks 4 MiB with each epoch, holds more than it uses, and runs out of memory once.
LEAKING = """
kept = []
held = [tensor(30 * MIB) for _ in range(4)]
held = held[:1]
for epoch in range(12):
    kept.append(tensor(4 * MIB))
    frugal_alloc.epoch_end()
try:
    tensor(8 << 30)
except torch.OutOfMemoryError:
    pass
"""


class Program:
    """A program on the simulated GPU."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def told(self) -> dict[str, Any]:
        """What it tells next."""
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        assert line, "the program has ended"
        return json.loads(line)

    def order(self) -> None:
        """Lets it go on from await_order()."""
        self._process.stdin.write("\n")  # type: ignore[union-attr]
        self._process.stdin.flush()  # type: ignore[union-attr]

    def status(self) -> int:
        return self._process.wait(timeout=60)


@contextlib.contextmanager
def running(
    code: str, folder: Path, memory: int = 4 * GIB, starter: Sequence[str] = (sys.executable,), **variables: str
) -> Iterator[Program]:
    """Has `starter` run `code` after BEGIN, in a file named train.py."""
    script = folder / "train.py"
    script.write_text(BEGIN + code)
    environment = simulated_gpu.environment(memory, base={**os.environ, "FRUGAL_ALLOC_CONF": "report_dir:off"})
    with subprocess.Popen(
        [*starter, str(script), "--its", "arguments"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environment, **variables},
        cwd=folder,
    ) as process:
        yield Program(process)
        process.stdin.close()  # type: ignore[union-attr]


def name_of(pid: int) -> str:
    return f"frugal_alloc/{os.stat('/proc/self/ns/pid').st_ino}/{pid}"


def listener(pid: int) -> socket.socket:
    """A socket at which that process is asked."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(f"\0{name_of(pid)}")
    made.listen(8)
    return made


def is_published(pid: int) -> bool:
    return f"@{name_of(pid)}\n" in Path("/proc/net/unix").read_text()
