"""The line of the program that a site is told at, as a baseline has it."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable, Mapping

from ..._common.messages import short_path
from ..._native import Library
from ..._native.sites import Frame, Site
from ..._tracking import users_lines
from .figures import Line

_MOST_LINES = 16
_NO_LINE = ("", "", 0, users_lines.NO_LINE)
_WRAPPERS = tuple(os.path.join("torch", *path) for path in (("_dynamo", "eval_frame.py"), ("_compile.py",)))
_THREADS = f"{os.sep}threading.py"


class Lines:
    """Those of a process; each site is looked up once."""

    def __init__(self, library: Library, root: str) -> None:
        """Files are told relative to the folder `root`."""
        self._library = library
        self._root = root
        self._known: dict[int, tuple[str, str, int, str, str]] = {}
        self._of_threads: dict[int, bool] = {}

    def of(self, sites: Mapping[int, int]) -> tuple[Line, ...]:
        """From the bytes of sites, those of lines: the most first, and no more than are worth keeping."""
        sums: dict[tuple[str, str, int, str, str], int] = {}
        for site, size in sites.items():
            line = self._line(site)
            sums[line] = sums.get(line, 0) + size
        lines = [Line(*line[:4], size, line[4]) for line, size in sums.items()]
        return tuple(sorted(lines, key=lambda line: (-line.bytes, *line)))[:_MOST_LINES]

    def is_of_thread(self, site: int) -> bool:
        """Whether a thread of Python's asked that the program has started: several take turns as it happens."""
        if site not in self._of_threads:
            frames = self._library.site(site).frames
            self._of_threads[site] = any(
                frame.file.endswith(_THREADS) and frame.function.endswith("_bootstrap_inner") for frame in frames
            )
        return self._of_threads[site]

    def _line(self, number: int) -> tuple[str, str, int, str, str]:
        if number not in self._known:
            self._known[number] = self._look_up(self._library.site(number))
        return self._known[number]

    def _look_up(self, site: Site) -> tuple[str, str, int, str, str]:
        frame = users_lines.of_site(self._library, site)
        inner = _innermost(users_lines.stack_of(self._library, site))
        through = f"{self._name(inner.file)} {inner.function}" if inner is not None and inner != frame else ""
        if frame is None:
            return (*_NO_LINE, through or site.node)
        text = " ".join(linecache.getline(frame.file, frame.line).split())[:120]
        return self._name(frame.file), frame.function, frame.line, text, through

    def _name(self, file: str) -> str:
        if short_path(file) != file and ("/site-packages/" in file or "/dist-packages/" in file):
            return short_path(file)
        try:
            relative = os.path.relpath(os.path.realpath(file), self._root)
        except ValueError:
            return file
        # What lies elsewhere lies at another place on each machine.
        return short_path(file) if relative.startswith("..") else relative


def _innermost(frames: Iterable[Frame]) -> Frame | None:
    """Without what the simulation's own calls go through."""
    return next((frame for frame in frames if not frame.file.endswith(_WRAPPERS)), None)
