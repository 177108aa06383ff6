"""The library's functions about sites and segments, for Python; see bindings/c_api/c_api.h.

A *site* is where memory was asked for: the lines of Python that led there, the node of a backward pass, or a phase that
the program names. Importing this module imports neither torch nor the library.
"""

from __future__ import annotations

import ctypes
import sys
from typing import NamedTuple

from .._program import code_lines, users_code
from .._program.code_lines import Frame
from .memory import Functions, decode, encode

#: Of memory that no line of the user's is known for: a library's own thread, or what was made before enable().
NO_LINE = "no line is known"


class Site(NamedTuple):
    """Where memory was asked for."""

    number: int
    #: As :func:`frugal_alloc.phase` or a C++ Phase named the phase that its thread was in; "": none.
    phase: str
    #: The innermost first; none on threads without Python.
    frames: tuple[Frame, ...]
    #: In a backward pass, the node that was evaluated, such as "MulBackward0" or "autograd.Function Swish"; else "".
    node: str
    #: Number of the site at which that node was made; 0: not known.
    forward: int


class SiteUsage(NamedTuple):
    """What a site holds of a GPU."""

    gpu: int
    site: int
    live_bytes: int
    blocks: int
    #: What it held when most of the GPU's memory was in use.
    peak_bytes: int


class BlockRecord(NamedTuple):
    """A block of a segment."""

    address: int
    bytes: int
    state: str  # "free", "allocated", or "awaiting": freed, but a stream may still use it
    site: int  # 0 where not recorded
    epoch: int  # of birth; -1 where not recorded


class SegmentRecord(NamedTuple):
    """A run of addresses with memory behind them."""

    gpu: int
    address: int
    bytes: int
    stream: int
    mapped: bool  # of handles that can move; False: a segment of cudaMalloc
    unusable_bytes: int  # free, but in handles that tensors in use share
    blocks: list[BlockRecord]


class PrivatePool(NamedTuple):
    """A private pool of PyTorch's."""

    gpu: int
    id: tuple[int, int]  # as torch.cuda.CUDAGraph.pool() has it
    site: int  # where it was made; 0: not known
    captured: bool  # by a graph
    holders: int  # graphs and objects; 0: it was released
    reserved_bytes: int
    allocated_bytes: int
    kept_bytes: int  # free, and nobody else's as long as somebody holds the pool
    idle_bytes: int  # in segments that hold nothing, which come back once nobody holds the pool


class SiteFunctions(Functions):
    """Where memory was asked for, and what each place holds."""

    _beginnings: dict[str, str] | None = None

    def read_python(self) -> bool:
        """Lets sites have lines of Python; False: this Python's frames cannot be read."""
        self.follow_path()
        # A debug build of Python keeps more in its structures.
        if hasattr(sys, "gettotalrefcount"):
            return False
        here = sys._getframe()
        file, function = here.f_code.co_filename.encode(errors="surrogateescape"), here.f_code.co_name.encode()
        return self._library.frugal_read_python(file, function, here.f_lineno) == 0

    def follow_path(self) -> None:
        """Tells the library whose code is whose, if that has changed: a program may put folders on its path."""
        beginnings = users_code.beginnings()
        if beginnings is not self._beginnings:
            self._beginnings = beginnings
            self._library.frugal_set_code_owners(_code_owners(beginnings))

    def set_phase(self, name: str) -> str:
        """What the calling thread allocates counts to this phase; "": to none. Returns the one before."""
        before = self._check(self._library.frugal_set_phase(self._library.frugal_phase(encode(name))))
        return decode(self._library.frugal_phase_name(before))

    def site(self, number: int) -> Site:
        """A site that another function has named."""
        site = self._answer(self._library.frugal_site(number))
        return Site(**site | {"frames": tuple(Frame(**frame) for frame in site["frames"])})

    def site_usages(self) -> list[SiteUsage]:
        """What each site holds now or held at the peak, on every GPU."""
        self.follow_path()
        return [SiteUsage(**usage) for usage in self._answer(self._library.frugal_site_usages())]

    def take_peak(self, gpu: int) -> tuple[int, int, int]:
        """The most of a GPU's memory that was in use since the last call, as far as it is recorded; what is in use and
        what is held now. `stats` says the latter, too, but its dictionary takes ten times as long."""
        in_use, held = ctypes.c_int64(), ctypes.c_int64()
        peak = self._library.frugal_take_peak(gpu, in_use, held)
        return peak, in_use.value, held.value

    def segments(self) -> list[SegmentRecord]:
        """Every GPU's memory as it is, in the order of addresses within each stream."""
        return [
            SegmentRecord(**segment | {"blocks": list(map(BlockRecord._make, segment["blocks"]))})
            for segment in self._answer(self._library.frugal_segments())
        ]

    def private_pools(self) -> list[PrivatePool]:
        """Those of every GPU that hold memory."""
        pools = self._answer(self._library.frugal_private_pools())
        return [PrivatePool(**pool | {"id": tuple(pool["id"])}) for pool in pools]


def users_line(library: SiteFunctions, site: Site) -> Frame | None:
    """The user's line; where a backward allocates, that of the forward; None where none is known."""
    frame = users_code.innermost(site.frames)
    if frame is None and site.forward:
        frame = users_code.innermost(library.site(site.forward).frames)
    return frame


def site_text(library: SiteFunctions, number: int) -> str:
    """A site as "file.py:12 in function", or as well as it is known."""
    site = library.site(number)
    frame = users_line(library, site)
    node = f", in backward by {site.node}" if site.node else ""
    if frame is None:
        return f"phase {site.phase}" if site.phase else f"{NO_LINE}{node}"
    within = "" if frame.function == "<module>" else f" in {frame.function}"
    return f"{code_lines.written(frame.file, frame.line, shorten=False)}{within}{node}"


def site_stack(library: SiteFunctions, site: Site) -> tuple[Frame, ...]:
    """The calls that explain a site, the innermost first; for a backward, those of the forward where it is known."""
    forward = library.site(site.forward).frames if site.forward else ()
    frames = site.frames if not forward or users_code.innermost(site.frames) is not None else forward
    return tuple(users_code.as_written(frames))


def _code_owners(beginnings: dict[str, str]) -> bytes:
    """As bindings/c_api/c_api.h describes them."""
    letters = {users_code.USERS: "u", users_code.USERS_FLAT: "f"}
    lines = [letters.get(owner, "n") + text for text, owner in beginnings.items() if "\n" not in text]
    return "\n".join(lines).encode(errors="surrogateescape")
