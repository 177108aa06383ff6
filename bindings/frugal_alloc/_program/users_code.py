"""Whose code a file is: the user's, a library's, ours, or nobody's: what was generated as the program ran; and which
line of the user's own that was generated from.

One list of beginnings of file names decides, the longest that fits; the library has the same list for the lines that it
records (see bindings/tracking/code_owners.h).
"""

from __future__ import annotations

import bisect
import functools
import linecache
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from typing import Any

from .code_lines import Frame

USERS, LIBRARYS, OURS, NOBODYS = "users", "library's", "ours", "nobody's"
# The user's are the files directly in the folder; those in folders below it are nobody's.
USERS_FLAT = "users, flat"

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# What the user has typed in, in a terminal, a notebook or a docstring. The rest that has no file was made by a program.
_TYPED_IN = ("<stdin>", "<ipython-input", "<python-input", "<doctest ", "<command-")
# Cells that Jupyter, Colab and marimo compile under the name of a temporary file.
_CELLS = ("ipykernel_", "ipython-input-", "marimo_")
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")

_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)')
# A line that was edited is looked for in its file: in those that are larger it would take too long.
_MOST_LINES = 100_000
_LONGEST_LAUNCHER = 1000
# The end of a folder that is on the path of the processes which are on the simulated GPU.
_SIMULATION = os.path.join("simulated_gpu", "startup")

# What the beginnings below were found from: when a program puts a folder on its path, they are found anew.
_found_from: tuple = ()
_beginnings: dict[str, str] = {}
_owners: dict[str, str] = {}


def owner(file: str | None) -> str:
    """Whose code the file is, as of the latest call of `beginnings`: USERS, LIBRARYS, OURS or NOBODYS."""
    if not file:
        return NOBODYS
    # Asked of each frame of thousands of stacks: of files that are known, it is not looked up whether the path changed.
    if (known := _owners.get(file)) is None:
        beginnings()
        known = _owners[file] = _owner(file)
    return known


def is_users(file: str | None) -> bool:
    """Whether the file is the user's own code."""
    return owner(file) == USERS


def is_ours(file: str | None) -> bool:
    """Whether the file is of this package."""
    return owner(file) == OURS


def beginnings() -> dict[str, str]:
    """Whose a file is whose name begins so, the longest that fits; no entry fits: the user's. Another object whenever
    it has changed."""
    global _found_from, _beginnings
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    source = (sys.path[:], main, sys.argv[:1], os.environ.get("TORCHINDUCTOR_CACHE_DIR"))
    if source != _found_from:
        found = dict(_find(main))
        _owners.clear()
        _beginnings, _found_from = found, source
    return _beginnings


def _owner(file: str) -> str:
    path = file if file.startswith("<") else os.path.abspath(file)
    beginning = max(filter(path.startswith, _beginnings), key=len, default="")
    found, rest = _beginnings.get(beginning, USERS), path[len(beginning) :]
    if found == USERS_FLAT:
        found = NOBODYS if os.sep in rest else USERS
    # Also those of other environments, which a program may have added to its path.
    if found == USERS and any(folder in f"{os.sep}{rest}" for folder in _INSTALLED):
        return LIBRARYS
    return found


def _find(main: str | None) -> Iterator[tuple[str, str]]:
    """Of two for the same beginning the later counts."""
    temporary = set(_both_names(_temporary_folders()))
    libraries = set(_both_names(_library_folders()))
    yield from ((folder, NOBODYS) for folder in temporary)
    # Folders on the path that pip has filled, as by --target, unless the program itself is there, or was started there.
    filled = (folder for folder in sys.path if isinstance(folder, str) and _has_installed(folder))
    yield from ((folder, LIBRARYS) for folder in _both_names(filled))
    for folder in set(_both_names(_users_folders(main))):
        if any(installed in folder for installed in _INSTALLED):
            yield folder, LIBRARYS
        elif not any(folder.startswith(library) for library in libraries) and folder not in temporary:
            yield folder, USERS
        elif folder in temporary:
            yield folder, USERS_FLAT
    yield from ((folder + cell, USERS) for folder in temporary for cell in _CELLS)
    yield from ((folder, LIBRARYS) for folder in libraries)
    yield from ((folder, NOBODYS) for folder in _both_names(_generated_folders()))
    yield from ((name, OURS) for name in (PACKAGE + os.sep, _launcher(), *_simulation()) if name)
    yield "<", NOBODYS
    yield from ((name, USERS) for name in _TYPED_IN)
    # A program that is given on the command line has the name of code that a program makes up.
    if sys.argv[:1] == ["-c"]:
        yield "<string>", USERS


@functools.cache
def _launcher() -> str | None:
    """The script that pip has made to call a package by, such as frugal-alloc or pytest, if this process is that one's:
    it calls the program as we do, and is nobody's code."""
    file = next((word for word in sys.orig_argv[1:] if not word.startswith("-")), "")
    if os.path.basename(os.path.dirname(os.path.abspath(file))) != "bin" or os.path.splitext(file)[1]:
        return None
    try:
        with open(file, "rb") as script:
            text = script.read(_LONGEST_LAUNCHER + 1)
    except (OSError, ValueError):
        return None
    is_launcher = len(text) <= _LONGEST_LAUNCHER and b"import " in text and b"sys.exit(" in text
    return os.path.abspath(file) if is_launcher else None


def _both_names(folders: Iterator[str | None]) -> Iterator[str]:
    """Each as it was given and as it is without links, ended by a separator."""
    for folder in folders:
        # "/", which a service may work in, says nothing.
        if folder and os.path.abspath(folder) != os.sep:
            yield os.path.join(os.path.abspath(folder), "")
            yield os.path.join(os.path.realpath(folder), "")


def _temporary_folders() -> Iterator[str | None]:
    # Not by tempfile.gettempdir(), which would write a file to try each.
    yield from map(os.environ.get, ("TMPDIR", "TEMP", "TMP"))
    yield getattr(sys.modules.get("tempfile"), "tempdir", None)
    yield from ("/tmp", "/var/tmp", "/usr/tmp", "/dev/shm")


def _generated_folders() -> Iterator[str | None]:
    """Those of compilers: their files are nobody's even within a folder of the user's."""
    yield from map(os.environ.get, ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"))
    yield os.path.expanduser("~/.triton")


def _library_folders() -> Iterator[str | None]:
    yield from map(sysconfig.get_paths().get, ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from site.getsitepackages() if hasattr(site, "getsitepackages") else ()
    yield site.getusersitepackages() if hasattr(site, "getusersitepackages") else None
    # Where torch is, too, if it is used from where it was built.
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    yield os.path.dirname(torch) if torch else None
    # Models that torch.hub and transformers have loaded.
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield os.path.join(os.environ.get("TORCH_HOME") or os.path.join(cache, "torch"), "hub")
    yield os.path.join(os.environ.get("HF_HOME") or os.path.join(cache, "huggingface"), "modules")


def _users_folders(main: str | None) -> Iterator[str | None]:
    """Those that the user's code is loaded from: a program may well lie in a temporary folder."""
    yield os.path.dirname(os.path.abspath(main)) if main else None
    try:
        yield os.getcwd()
    except OSError:  # it has been removed
        yield None
    # Of PYTHONPATH and the like: a user's own project as likely as not.
    yield from (folder for folder in sys.path if isinstance(folder, str) and not _has_installed(folder))


@functools.cache
def _has_installed(folder: str) -> bool:
    """Whether pip has installed packages there. A project that is installed from where it lies has none of these."""
    try:
        with os.scandir(folder) as entries:
            return any(entry.name.endswith(".dist-info") for entry in entries)
    except OSError:  # no folder, or a closed one
        return False


def innermost(frames: Iterable[Frame]) -> Frame | None:
    """The user's innermost line; of compiled code, the one that it was compiled from."""
    return next((frame for frame in as_written(frames) if is_users(frame.file)), None)


def as_written(frames: Iterable[Frame]) -> Iterable[Frame]:
    """The frames without our own; those of generated code replaced by what they were generated from, if it is known."""
    generated = _line_maps()
    for frame in _below_simulation(tuple(frames)):
        if is_ours(frame.file):
            continue
        if frame.file in generated:
            yield from frames_of_compiled(frame.file, frame.line) or [frame]
        else:
            yield frame


def _below_simulation(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Without the calls by which the simulated GPU has an operator carried out, which no real one has."""
    of_simulation = [
        index
        for index, frame in enumerate(frames)
        if frame.function.endswith("__torch_dispatch__") and frame.file.startswith(_simulation())
    ]
    return frames[of_simulation[-1] + 1 :] if of_simulation else frames


def _simulation() -> tuple[str, ...]:
    """The folder of what computes values there."""
    folders = (os.path.dirname(os.path.abspath(entry)) for entry in sys.path if entry.endswith(_SIMULATION))
    return tuple(os.path.join(folder, "values", "") for folder in folders)


def frames_of_compiled(file: str, line: int) -> list[Frame]:
    """The calls that a line which torch.compile has generated is for, the innermost first; none if none is known.

    The compiler keeps, for each line of the modules that it writes, the stack trace of the operation that the line is
    for, in the forward as in the backward. Where it knows none, the caller's line is the nearest that is known.
    """
    found = []
    # An outermost "Traceback (most recent call last)" and lines of carets are no frames.
    texts = _trace(file, line).splitlines()
    for text, source in zip(texts, [*texts[1:], ""], strict=False):
        if (match := _FRAME.fullmatch(text)) is not None:
            is_source = _FRAME.fullmatch(source) is None
            found.append(_found_again(match, source.strip() if is_source else ""))
    return [frame for frame in reversed(found) if frame is not None]


def _line_maps() -> dict[str, Any]:
    """Of what torch.compile has written, or loaded, in this process, by file."""
    # Not imported: a program that compiles nothing is not to wait for the compiler.
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    return getattr(cache, "linemaps", None) or {}


def _trace(file: str, line: int) -> str:
    """Of the operation that begins at the line, or at one before it."""
    try:
        starts, traces = _line_maps()[file]
        place = bisect.bisect_right(starts, line)
        trace = traces[place - 1] if place else None
    except (KeyError, ValueError, TypeError, IndexError):  # none, or as another version of the compiler has it
        return ""
    return trace if isinstance(trace, str) else ""


def _found_again(match: re.Match[str], source: str) -> Frame | None:
    """The frame, if its line still reads so or another one of the file alone does.

    What was compiled in an earlier run is loaded from the disk with the lines of that time, though the program may have
    been edited since.
    """
    file, line, function = match["file"], int(match["line"]), match["function"]
    if not source or linecache.getline(file, line).strip() == source:
        return Frame(file, line, function)
    lines = linecache.getlines(file)
    if not 0 < len(lines) <= _MOST_LINES:
        return None
    same = [number for number, text in enumerate(lines, 1) if text.strip() == source]
    return Frame(file, same[0], function) if len(same) == 1 else None
