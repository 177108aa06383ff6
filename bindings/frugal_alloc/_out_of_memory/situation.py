"""What is known when memory has run out: what the finders see on the failing thread, and what the report accuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from .. import _tracking
from .._common.messages import format_bytes as size
from .._interruptions import attempt
from .._native.sites import Frame, site_stack
from .._program.code_lines import CodeLine
from .._report import private_pools
from .._tracking import received
from . import graphs, holding_lines, kept, kept_frames, levers, library_settings, loading, reckoning, variables
from .holding_lines import HoldingLine
from .scene import LEAST_BYTES, Advice, Scene
from .step import Step
from .variables import DeadVariables

if TYPE_CHECKING:
    from .._native import Library
    from .._native.out_of_memory import OutOfMemory

#: Kinds of verdicts about memory that the program keeps.
LEAKS = ("leak", "growing", "suspect", "cycle")
# Patterns of what the library does not know of: what private pools keep, and what other processes have shared.
_UNSEEN = ("cuda_graph_per_shape", "failed_capture", "private_pool", "shared")


_Keeper: TypeAlias = "kept.Kept | kept_frames.KeptFrames"
# A hundredth of what has grown is missing: it is half of it that is seen.
_MUCH_GROWN = 50


class Fragmentation(NamedTuple):
    """Free memory that a request could not use, by the reason why."""

    hard_bytes: int  # free, in pages that live blocks share
    soft_bytes: int  # free and usable, yet not joined into one block
    stream_bytes: int  # freed, and still in use by a stream

    @property
    def text(self) -> str:
        soft = f"{size(self.soft_bytes)} in separate pieces"
        soft += " that this GPU cannot map side by side" if self.soft_bytes else ""
        return (
            f"{size(self.hard_bytes)} in pages that live tensors share, {soft}, "
            f"{size(self.stream_bytes)} waiting for a stream"
        )


class Situation(NamedTuple):
    facts: OutOfMemory
    request: CodeLine | None
    stack: list[Frame]  # of the request, innermost first
    holders: list[HoldingLine]
    inner: list[HoldingLine]  # the lines of libraries within the first holder's
    pieces: Fragmentation
    epochs_ended: int
    saved_bytes: int  # by autograd for backward, and held by nothing else
    largest_kept: _Keeper | None
    pinning: list[Advice]  # about small blocks that keep pages
    advice: list[Advice]  # of all finders, of each rank in the order of how much it brings
    verdicts: list[dict[str, Any]]  # of the report on this GPU, those that hold still, the worst first
    pools: list[dict[str, Any]]  # PyTorch's private ones, as a report has them
    missing_bytes: int  # to the end of the step, as far as it can be told
    without_samples: str  # why no batch of a step fits, or not the model; "": it may
    grown_bytes: int  # of what was in use as epochs ended, in the later half of them

    def of_rank(self, rank: int) -> list[Advice]:
        return [advice for advice in self.advice if advice.rank == rank]

    @property
    def diagnosis(self) -> str:
        """A name of diagnoses.DIAGNOSES, which tells more apart than the verdict."""
        facts = self.facts
        if facts.verdict == "leak" and self.leak is not None and epochs_are("calls"):
            return "filling_cache"
        if facts.verdict == "outside" and facts.host:
            return "host"
        if facts.verdict != "too_big":
            return facts.verdict
        if facts.missing_bytes == 0:
            return "refused"
        return "held_by_pools" if private_pools.idle_bytes(self.pools) >= facts.missing_bytes else "too_big"

    @property
    def leak(self) -> dict[str, Any] | None:
        """The worst verdict about memory that the program keeps; its bytes are those of all lines that are about the
        same CUDA graphs."""
        worst = next((row for row in self.verdicts if row["kind"] in LEAKS), None)
        if worst is None or worst["pattern"] != "cuda_graph_per_shape":
            return worst
        same = [row for row in self.verdicts if row["pattern"] == worst["pattern"]]
        sums = {key: sum(row[key] or 0 for row in same) for key in ("bytes", "bytes_per_epoch", "bytes_per_step")}
        return worst | sums

    def judged(self, verdicts: list[dict[str, Any]]) -> Situation:
        """With the rows of the report; the verdict is the library's, unless what these say is otherwise."""
        here = [row for row in verdicts if row["gpu"] == self.facts.gpu and self._still_holds(row)]
        facts = self.facts
        if facts.verdict == "fragmentation" and facts.missing_bytes * _MUCH_GROWN < self.grown_bytes:
            # What grows fills any GPU: the pieces that are left then are not why.
            facts = facts._replace(verdict="too_big")
        return self._replace(verdicts=here, facts=facts._replace(verdict=_verdict(facts, here)))

    def _still_holds(self, row: dict[str, Any]) -> bool:
        """Whether the line of a verdict holds now what it held at the last epoch's end, or half of it; and whether what
        has grown outside is still there."""
        if row["kind"] == "outside":
            tracker = _tracking.current()
            more = 0 if tracker is None else tracker.outside.more_than_before(row["gpu"], self.facts.outside_bytes)
            return 2 * more >= row["bytes"]
        if row["kind"] not in LEAKS or not row["file"]:
            return True
        place = row["file"], row["line"]
        held = sum(holder.bytes for holder in self.holders if holder.code_line[:2] == place)
        if row["pattern"] in _UNSEEN:
            pools = [pool for pool in self.pools if (pool["file"], pool["line"]) == place and not pool["released"]]
            opened = [one for one in received.now().get(row["gpu"], []) if one.frame and one.frame[:2] == place]
            held += sum(pool["kept_bytes"] for pool in pools) + sum(one.bytes for one in opened)
        return 2 * held >= row["bytes"]


def _verdict(facts: OutOfMemory, here: list[dict[str, Any]]) -> str:
    if facts.verdict == "leak" and not any(row["kind"] in LEAKS for row in here):
        # What leaked until the last epoch's end has been let go since.
        return "too_big"
    if facts.verdict == "too_big":
        enough = [row for row in here if row["bytes"] >= facts.missing_bytes]
        # The library knows how much is outside, but not that it has come to be there in the course of the run.
        if any(row["kind"] == "outside" and _suffices(row["bytes"], facts) for row in enough):
            return "outside"
    # Nor does it know of these; to it, what others have shared is outside.
    unseen = _UNSEEN if facts.verdict == "too_big" else ("shared",) if facts.verdict == "outside" else ()
    kept = sum(row["bytes"] for row in here if row["pattern"] in unseen)
    return "leak" if kept and kept >= facts.missing_bytes else facts.verdict


def epochs_are(windows: str) -> bool:
    """Whether what is called an epoch is a window of "steps", or of "calls"."""
    tracker = _tracking.current()
    return tracker is not None and tracker.epochs.found_by == windows


def _suffices(gone: int, facts: OutOfMemory) -> bool:
    """Whether the request would fit, had others so much less of the GPU: a limit holds whatever is free."""
    may_take = facts.limit_bytes - facts.reserved_bytes - facts.native_reserved_bytes
    gained = min(facts.device_free_bytes + gone, may_take) - min(facts.device_free_bytes, may_take)
    return gained >= facts.missing_bytes


def look(facts: OutOfMemory, library: Library) -> Situation:
    """Looks around on the failing thread. Nothing of what is returned keeps a tensor or a frame alive.

    The program's objects may answer in any way: where a look fails, the rest is to be told all the same.
    """
    scene = Scene(facts, library)
    try:
        dead = attempt([], variables.find_dead, scene)
        idle = attempt([], variables.find_idle, scene)
        keeping = _keeping(scene, dead)
        has_graphs = attempt(False, scene.ownership.pools.are_of_graphs)
        saved_bytes, largest = attempt((0, 0), scene.ownership.saved_for_backward)
        needless = attempt([], graphs.without_graph, scene, saved_bytes)
        untrained = [] if needless else attempt([], graphs.of_untrained, scene)
        old_bytes = sum(change.bytes for change in untrained) + sum(keeper.graph_bytes for keeper in keeping)
        failed = None if needless else attempt(None, reckoning.look, scene, saved_bytes - old_bytes, largest, old_bytes)
        # There is to be room for it afterwards.
        if failed is not None and failed.least_bytes > failed.usable_bytes:
            idle = []
        unread = {f"`{name}`" for variable in dead for name in variable.names}
        advice = [
            *needless,
            *untrained,
            *attempt([], loading.find, scene),
            *(variable.advice(has_graphs) for variable in dead),
            *(keeper.advice for keeper in _worth_a_line(keeping, facts) if keeper.keeper not in unread),
            *idle,
        ]
        advice.sort(key=lambda change: -change.bytes)
        holders = attempt([], holding_lines.by_size, library, facts.gpu)
        return Situation(
            facts,
            holding_lines.of_site(library, facts.site) or _running_line(scene),
            attempt([], _stack, scene),
            holders,
            attempt([], holding_lines.split, library, facts.gpu, holders[0]) if holders else [],
            _pieces(facts, library),
            library.epochs_ended(),
            saved_bytes,
            keeping[0] if keeping else None,
            attempt([], holding_lines.find_pinning, library, facts.gpu) if facts.verdict == "fragmentation" else [],
            [*advice, *_at_others(scene), *_smaller(scene, dead, failed, saved_bytes)],
            [],
            attempt([], private_pools.rows, library, facts.gpu),
            _missing(scene, failed),
            failed.without_samples if failed is not None else attempt("", levers.model_too_large, scene),
            _grown(facts.gpu),
        )
    finally:
        scene.let_go()


def _grown(gpu: int) -> int:
    tracker = _tracking.current()
    return 0 if tracker is None else tracker.timeline.grown_bytes(gpu)


def _running_line(scene: Scene) -> CodeLine | None:
    innermost = next(iter(scene.users_frames), None)
    return None if innermost is None else CodeLine(innermost.file, innermost.line, innermost.function)


def _worth_a_line(keeping: list[_Keeper], facts: OutOfMemory) -> list[_Keeper]:
    """What a step needs anyway is in lists, too; it matters if it is much, or would be enough."""
    least = max(LEAST_BYTES, min(facts.allocated_bytes // 20, facts.missing_bytes))
    return [keeper for keeper in keeping if keeper.bytes >= least]


def _keeping(scene: Scene, dead: list[DeadVariables]) -> list[_Keeper]:
    """The most first."""
    of_failed = attempt([], kept_frames.find_kept_frames, scene, dead)
    return sorted([*attempt([], kept.find_kept, scene), *of_failed], key=lambda keeper: -keeper.bytes)


def _missing(scene: Scene, failed: Step | None) -> int:
    """To the end of the step, or of the model that is being moved."""
    of_step = failed.missing_bytes if failed is not None else 0
    return max(scene.facts.missing_bytes, attempt(0, levers.missing_to_move, scene), of_step)


def _at_others(scene: Scene) -> list[Advice]:
    """What other processes have, and what libraries keep by their settings."""
    shared = attempt([], holding_lines.find_shared, scene.library, scene.facts.gpu)
    return [*shared, *attempt([], library_settings.find, scene)]


def _smaller(scene: Scene, dead: list[DeadVariables], failed: Step | None, saved_bytes: int) -> list[Advice]:
    if failed is not None:
        return attempt([], failed.advice)
    return attempt([], levers.find_at_work, scene, dead, saved_bytes)


def _stack(scene: Scene) -> list[Frame]:
    number, library = scene.facts.site, scene.library
    if number > 0 and (stack := site_stack(library, library.site(number))):
        return list(stack)
    return [Frame(frame.file, frame.line, frame.function) for frame in scene.frames]


def _pieces(facts: OutOfMemory, library: Library) -> Fragmentation:
    free = facts.reserved_bytes - facts.allocated_bytes - facts.awaiting_bytes
    # Where the GPU maps memory, free pages join wherever they lie.
    can_map = library.stats(facts.gpu).get("virtual_memory", 1)
    soft = 0 if can_map else max(0, free - facts.unusable_bytes - facts.largest_free_bytes)
    return Fragmentation(facts.unusable_bytes, soft, facts.awaiting_bytes)
