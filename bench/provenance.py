"""Where a measurement was made: the commit, the machine and its software."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent


def commit() -> str:
    """The commit of this checkout, with "-dirty" where files of it have been changed; "unknown" outside of git."""
    return (
        _output("git", "-C", str(_ROOT), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*") or "unknown"
    )


def machine() -> dict[str, str]:
    """What a reader has to know of this machine, by title; nothing that names it."""
    return {
        "processor": _processor(),
        "processors online": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{_distribution()}, Linux {platform.release().partition('-')[0]}",
        "Python": platform.python_version(),
    }


def gpu_driver() -> str | None:
    """The version of NVIDIA's driver; None where there is none."""
    lines = _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()
    return lines[0] if lines else None


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    """The processor's name, or its architecture where it has none."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return platform.system()
