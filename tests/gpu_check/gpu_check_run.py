"""The programs that the tests of the GPU check start, and what comes of them."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
for _folder in ("tests", "simulated_gpu/python", "bindings"):
    if str(ROOT / _folder) not in sys.path:
        sys.path.insert(0, str(ROOT / _folder))
# Far above what any of these takes, far below waiting for ever.
MOST_SECONDS = 1500
GIB = 1 << 30
WHERE: dict[str, Any] = {
    "simulated": False,
    "virtual_memory": True,
    "gpu": "a GPU",
    "memory_bytes": 16 * GIB,
    "driver": "1.2",
    "driver_for_cuda": "13.0",
    "software": {"torch": "2.11"},
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str

    def assert_refused(self) -> str:
        """One line on stderr, status 2, nothing else; the line."""
        assert (self.status, self.out) == (2, ""), self
        assert self.err.count("\n") == 1, self.err
        return self.err


def run(*command: str | Path, **options: Any) -> Outcome:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=MOST_SECONDS, **options)
    return Outcome(done.returncode, done.stdout, done.stderr)


def environment(**changed: str) -> dict[str, str]:
    folders = (ROOT / "bindings", ROOT / "simulated_gpu" / "python", ROOT / "tests", ROOT)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **changed}
