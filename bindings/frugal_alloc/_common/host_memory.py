"""How much memory of the host this process can still have."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_GROUPS = Path("/sys/fs/cgroup")


def available_bytes() -> int | None:
    """The least of what the machine has left, what the process's control groups allow it, and its own limits; None: it
    is not known."""
    return min((left for left in (_of_machine(), *_of_groups(), _of_limits()) if left is not None), default=None)


def mapped_bytes() -> int:
    """The address space that the process has, which its limit (RLIMIT_AS) is on."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


def _of_machine() -> int | None:
    found = re.search(r"^MemAvailable:\s*(\d+) kB", _read(_MEMINFO), re.MULTILINE)
    return int(found[1]) << 10 if found else None


def _of_groups() -> Iterator[int]:
    """What each group above the process has left, files that could be forgotten included."""
    found = re.search(r"^0::/(.*)$", _read(Path("/proc/self/cgroup")), re.MULTILINE)
    group = _GROUPS / found[1] if found else _GROUPS
    for folder in (group, *group.parents):
        if not folder.is_relative_to(_GROUPS):
            return
        most, used = _read(folder / "memory.max").strip(), _read(folder / "memory.current").strip()
        if most.isdecimal() and used.isdecimal():
            files = re.search(r"^inactive_file (\d+)$", _read(folder / "memory.stat"), re.MULTILINE)
            yield max(0, int(most) - int(used) + (int(files[1]) if files else 0))


def _of_limits() -> int | None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else max(0, limit - mapped_bytes())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
