"""In a program: tells the library what its report would say, since no Python runs when ``frugal-alloc top`` asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._native import PublishedVerdict

if TYPE_CHECKING:
    from .._native import Library
    from .._tracking.tracker import Tracker

_latest: list[PublishedVerdict] = []
_is_asked = False

# The library tells no more.
_MOST_VERDICTS = 8


def start(library: Library) -> None:
    """From now on the ends of the run's epochs are judged, if it is tracked."""
    from .. import _tracking

    tracker = _tracking.current()
    if tracker is not None:
        tracker.at_epoch_end = _LiveVerdicts(library, tracker).epoch_ended


def latest() -> list[PublishedVerdict]:
    """What was judged last. To ask lets the next end of an epoch judge anew."""
    global _is_asked
    _is_asked = True
    return list(_latest)


class _LiveVerdicts:
    """Judges at the ends of epochs, but only if something new is accused, or somebody has looked since."""

    def __init__(self, library: Library, tracker: Tracker) -> None:
        self._library = library
        self._tracker = tracker
        self._accused: frozenset = frozenset()
        # From now on it is Python that judges.
        library.publish_verdicts([])

    def epoch_ended(self) -> None:
        """Called with the tracker's lock, after its own look for holders. Looks for none: the report does."""
        global _latest, _is_asked
        import torch

        accused = self._accusations()
        looked = self._library.take_look() or _is_asked
        if accused == self._accused and not (looked and accused):
            return
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return
        self._accused = accused
        _is_asked = False
        _latest = self._judged() if accused else []
        self._library.publish_verdicts(_latest)

    def _accusations(self) -> frozenset:
        """What there is to judge."""
        tracker, outside = self._tracker, self._tracker.outside
        findings = [*self._library.findings(), *tracker.epochs.growing(), *tracker.cycles.found(), *outside.found()]
        findings += [*outside.found_in_pools(), *outside.found_received()]
        return frozenset((finding.kind, finding.gpu, finding.site) for finding in findings)

    def _judged(self) -> list[PublishedVerdict]:
        # Most runs have nothing to judge.
        from .._tracking import materiality
        from . import document, headline

        judgement = document.judge(self._library, searches=False)
        causes, _ = materiality.material_and_small(document.with_cells(judgement.verdicts))
        return [
            PublishedVerdict(
                cause.kind,
                cause[0]["gpu"],
                headline.sentence(cause),
                cause.bytes_per_epoch,
            )
            for cause in causes[:_MOST_VERDICTS]
        ]
