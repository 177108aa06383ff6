"""In a process that ``frugal-alloc check`` looks at: what its tests, or all of it, take of the GPU's memory.

It begins once PyTorch has been imported. Nothing that goes wrong here reaches the program: it is written down, and the
command says it.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import gc
import linecache
import os
import sys
from collections.abc import Callable, Mapping

from ... import _native
from ..._common.messages import short_path
from ..._native.sites import NO_LINE, site_stack, users_line
from ..._tracking import holders, regions
from .. import followed, machine
from ..recorder import ProcessRecorder
from ..timeline import bytes_by_site
from .baseline import FIXTURE, PROCESS, TEST, Figures, Line
from .comparison import NOISE
from .ledger import Ledger, Window

# Those by which memory is had and given back, and waits of the host. How often the rest is called depends on what was
# called first in the process.
CALLS = ("malloc", "free", "create", "release", "map", "unmap", "reserve", "unreserve", "sync")
_YOUNG = 1
_MOST_LINES = 16
# What the simulation's own calls go through, and a thread of Python's.
_WRAPPERS = tuple(os.path.join("torch", *path) for path in (("_dynamo", "eval_frame.py"), ("_compile.py",)))
_THREADS = f"{os.sep}threading.py"
# pytest's, in the environment of what a test starts: "tests/test_a.py::test_b (call)".
_TEST_AT_START = os.environ.get("PYTEST_CURRENT_TEST", "")


class Recorder(ProcessRecorder):
    """Follows the memory of this process."""

    def __init__(self, sender: followed.Sender, root: str) -> None:
        # Python forgets the file of a program before it ends.
        self._name = _name_of_process(root)
        self._library = _native.load()
        self._lines = _Lines(self._library, root)
        self._ledger = Ledger(machine.function("memory_used"))
        self._read = self._settled = self._cleared = 0
        self._whole: Window | None = None
        super().__init__(sender, self._library)
        self.send({"torch": sys.modules["torch"].__version__})
        self._whole = self.begin()

    def finish(self) -> None:
        if is_of_tests or self.is_in_child or self._whole is None:
            return
        try:
            figures = self.end(self._whole, PROCESS)
            if figures is not None:
                self.tell(self._name, PROCESS, figures)
        except Exception as error:
            send_failure(error)

    def begin(self) -> Window:
        """From here on what is asked for belongs to one test, or to the process."""
        self._settle()
        return self.open()

    def open(self) -> Window:
        """A window within the one that is open, if any is."""
        self._catch_up()
        window = self._ledger.open()
        if sys.modules["torch"].cuda.is_initialized():
            self._start_counting(window)
        return window

    def end_peak(self, window: Window) -> None:
        """What comes now is no part of the peak; it may be of what is kept."""
        self._catch_up()
        if window.calls_before is not None and window.calls is None:
            now = self._calls()
            window.calls = {kind: now[kind] - count for kind, count in window.calls_before.items()}
        window.end_peak()

    def shared_end(self, window: Window) -> None:
        """A fixture that several tests share is about to let go of what it holds: what the test has left there would
        stay if another test came after it. To be called at the first such fixture."""
        if window.shared is None and window.sites:
            self._collect(window)
            window.shared = self._ledger.live(window)

    def end(self, window: Window, kind: str) -> Figures | None:
        """Of a test, a fixture or the process. None: it asked for no memory of the GPU."""
        self.end_peak(window)
        figures = None
        if window.sites:
            self._clear_workspaces() if kind == PROCESS else self._collect(window)
            figures = self._figures(window)
            if kind == TEST:
                figures = dataclasses.replace(figures, holder=self._holder(window))
            else:
                # Of a process nothing leaks, and what a test needs of a fixture is not known here.
                figures = dataclasses.replace(figures, released=figures.peak, leaked=None, leaks=())
            if kind == FIXTURE:
                figures = dataclasses.replace(figures, gpu=None, waste=None, calls=None, slack=0)
        self._ledger.close(window)
        return figures

    def end_fixture(self, window: Window, outer: Window) -> Figures | None:
        """Ends a fixture's window, which lives on in the outer one."""
        figures = self.end(window, FIXTURE)
        if figures is not None:
            outer.is_disturbed = bool(outer.sites)
            if not outer.is_disturbed:
                self._settle()
                self._start_counting(outer)
        return figures

    def tell(self, name: str, kind: str, figures: Figures | None, **outcome: bool) -> None:
        values = {} if figures is None else {"figures": figures.to_values()}
        self.send({"name": name, "kind": kind, **outcome, **values})

    def _figures(self, window: Window) -> Figures:
        kept = self._ledger.live(window)
        leaks = bytes_by_site(kept)
        result = Figures(leaked=sum(leaks.values()), leaks=self._lines.of(leaks))
        # Threads take turns as it happens, and what is at the peak with it.
        if any(map(self._lines.is_of_thread, window.sites)):
            return result
        peak, waste, sites = window.peak()
        stays = [*kept, *(window.shared or ())]
        released = window.peak(without=stays)[0] if stays else peak
        result = dataclasses.replace(result, peak=peak, released=released, lines=self._lines.of(sites))
        if window.is_disturbed or window.calls is None:
            return result
        return dataclasses.replace(result, gpu=window.gpu_peak(), waste=waste, calls=window.calls, slack=window.slack)

    def _holder(self, window: Window) -> str:
        """Who has most of what is kept."""
        kept = [(address, size, -1) for address, size in self._ledger.extents(window)]
        # To look for the holders of it takes tenths of a second.
        if sum(size for _, size, _ in kept) <= NOISE.bytes:
            return ""
        found = holders.find([kept])[0].holders
        return found[0].name.what if found else ""

    def _catch_up(self, frees_workspaces: bool = False) -> None:
        entries = list(self._library.journal_read(self._read))
        self._read += len(entries)
        self._ledger.follow(entries, frees_workspaces)

    def _start_counting(self, window: Window) -> None:
        """From now on count the driver's calls, and what is taken of the GPU: CUDA has started."""
        window.slack = self._ledger.slack()
        self._ledger.begin_again(window)
        window.calls_before, window.calls = self._calls(), None

    def _cuda_started(self) -> None:
        # What starts CUDA would pay for all that come after it.
        self._catch_up()
        for window in self._ledger.windows:
            self._start_counting(window)

    def _calls(self) -> dict[str, int]:
        return {kind: machine.function("calls")(kind.encode()) for kind in CALLS}

    def _collect(self, window: Window) -> None:
        """Lets go of what is garbage, and of what cuBLAS keeps to work in, which is known by that."""
        self._clear_workspaces()
        # Most tests leave nothing, and to look at all objects takes longer than many a test.
        for collect in (lambda: gc.collect(_YOUNG), gc.collect):
            if self._ledger.live(window):
                collect()
                self._catch_up()

    def _clear_workspaces(self) -> None:
        self._catch_up()
        if self._read > self._cleared and self._ledger.live():
            regions.clear_workspaces()
            self._catch_up(frees_workspaces=True)
        self._cleared = self._read

    def _settle(self) -> None:
        """What was there before is as it would be if nothing had run before, as far as it can be."""
        # Collections begin to count anew, so that garbage made from here on is found at the same moments.
        gc.collect(_YOUNG)
        self._catch_up()
        if self._read > self._settled:
            self._clear_workspaces()
            if self._ledger.slack():
                sys.modules["torch"].cuda.empty_cache()
                self._catch_up()
            self._settled = self._read


class _Lines:
    """The lines of the program that sites are told at, as a baseline has them."""

    def __init__(self, library: _native.Library, root: str) -> None:
        """Files are told relative to the folder `root`."""
        self._library, self._root = library, root
        # Each site is looked up once.
        self._line = functools.cache(self._look_up)
        self.is_of_thread = functools.cache(self._is_of_thread)

    def of(self, sites: Mapping[int, int]) -> tuple[Line, ...]:
        """From the bytes of sites, those of lines: the most first, and no more than are worth keeping."""
        sums: collections.Counter[Line] = collections.Counter()
        for site, size in sites.items():
            sums[self._line(site)] += size
        lines = [line._replace(bytes=size) for line, size in sums.items()]
        return tuple(sorted(lines, key=lambda line: (-line.bytes, *line)))[:_MOST_LINES]

    def _is_of_thread(self, site: int) -> bool:
        """Whether a thread of Python's asked that the program has started: several take turns as it happens."""
        frames = self._library.site(site).frames
        return any(frame.file.endswith(_THREADS) and frame.function.endswith("_bootstrap_inner") for frame in frames)

    def _look_up(self, number: int) -> Line:
        site = self._library.site(number)
        frame = users_line(self._library, site)
        stack = site_stack(self._library, site)
        inner = next((caller for caller in stack if not caller.file.endswith(_WRAPPERS)), None)
        through = f"{self._name(inner.file)} {inner.function}" if inner is not None and inner != frame else ""
        if frame is None:
            return Line("", "", 0, NO_LINE, 0, through or site.node)
        text = " ".join(linecache.getline(frame.file, frame.line).split())[:120]
        return Line(self._name(frame.file), frame.function, frame.line, text, 0, through)

    def _name(self, file: str) -> str:
        if short_path(file) != file and ("/site-packages/" in file or "/dist-packages/" in file):
            return short_path(file)
        try:
            relative = os.path.relpath(os.path.realpath(file), self._root)
        except ValueError:
            return file
        # What lies elsewhere lies at another place on each machine.
        return short_path(file) if relative.startswith("..") else relative


_recorder: Recorder | None = None
#: Whether tests are told one by one, so that the process as a whole is not.
is_of_tests = False
#: Called once there is a recorder: a test may be the first to import PyTorch.
on_start: Callable[[Recorder], None] | None = None


def recorder() -> Recorder | None:
    """None: PyTorch has not been imported, or it cannot be followed."""
    return _recorder


def start() -> None:
    """Follows this process from now on, as its order says; torch has been imported."""
    global _recorder
    try:
        sender, order = followed.start()
        _recorder = Recorder(sender, order["root"])
        if on_start is not None:
            on_start(_recorder)
    except Exception as error:
        send_failure(error)


def send_failure(error: BaseException) -> None:
    with contextlib.suppress(OSError):
        followed.Sender(followed.order()["folder"]).send({"failure": f"{type(error).__name__}: {error}"[:1000]})


def starting_test() -> str:
    """The test that has started this process; "": none has. What a fixture starts is of no one test."""
    return _TEST_AT_START.removesuffix(" (call)") if _TEST_AT_START.endswith(" (call)") else ""


def _name_of_process(root: str) -> str:
    """The same in each run: "train.py", "train.py rank 1", or "tests/test_a.py::test_b > train.py"."""
    name = _name_of_program(root)
    if rank := os.environ.get("RANK"):
        name += f" rank {rank}"
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        name += f" > {processes.current_process().name}"
    test = starting_test()
    return f"{test} > {name}" if test else name


def _name_of_program(root: str) -> str:
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:
        return f"-m {spec.name.removesuffix('.__main__')}"
    if not file:
        return "python -c"
    relative = os.path.relpath(os.path.realpath(file), root)
    return os.path.basename(file) if relative.startswith("..") else relative
