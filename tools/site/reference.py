"""Pages of the reference that are made: the command's own help and the headers."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "frugal_alloc"
INCLUDE = ROOT / "bindings" / "include" / "frugal_alloc"
CPP = (INCLUDE / "torch.h", INCLUDE / "sleep.h")
C = ROOT / "bindings" / "c_api" / "c_api.h"


def commands() -> list[str]:
    return re.findall(r"^    ([a-z-]+)(?=  |$)", _help(), re.MULTILINE)


def command_line_page() -> str:
    names = commands()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        parts = [
            f"## {name}\n\n```text\n{text}\n```\n" for name, text in zip(names, pool.map(_help, names), strict=True)
        ]
    return f"# The command line\n\n```text\n{_help()}\n```\n\n" + "\n".join(parts)


def _help(*command: str) -> str:
    """What the command prints for --help."""
    packages = f"{PACKAGE.parent}:{ROOT / 'simulated_gpu' / 'python'}"
    environment = {**os.environ, "PYTHONPATH": packages, "COLUMNS": "100", "NO_COLOR": "1"}
    line = [sys.executable, "-m", "frugal_alloc", *command, "--help"]
    return subprocess.run(line, env=environment, check=True, capture_output=True, text=True).stdout.rstrip()


def cpp_page() -> str:
    headers = "\n".join(f"## {header.name}\n\n{_whole(header)}" for header in CPP)
    return f"# C++\n\n[For C++ programs](../cpp.md) says how to build with them.\n\n{headers}"


def c_page() -> str:
    told = "The Python package and [the C++ headers](cpp.md) call these functions. They may change with any version."
    return f"# C functions\n\n{told}\n\n{_whole(C)}"


def _whole(header: pathlib.Path) -> str:
    text = header.read_text(encoding="utf-8").rstrip()
    return f"This is `{header.relative_to(ROOT)}`.\n\n```cpp\n{text}\n```\n"


#: By name below docs/reference/, what makes its text.
PAGES = {"command_line.md": command_line_page, "cpp.md": cpp_page, "c.md": c_page}
