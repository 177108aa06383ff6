"""Peaks, and whose memory is whose, from made-up journals."""

from __future__ import annotations

from frugal_alloc._native import journal
from frugal_alloc._native.journal import JournalEntry
from frugal_alloc._planning.check.ledger import Ledger


class Journal:
    def __init__(self) -> None:
        self.used: dict[int, int] = {}
        self.ledger = Ledger(lambda gpu: self.used.get(gpu, 0))

    def note(self, kind: int, address: int, size: int, site: int = 0, gpu: int = 0, **flags: bool) -> None:
        fields = {**dict.fromkeys(JournalEntry._fields, 0), "address": address, "bytes": size, "site": site}
        entry = JournalEntry(**{**fields, "kind": kind, "gpu": gpu, "gpu_used": self.used.get(gpu, 0)})
        self.ledger.follow([entry], **flags)

    def take(self, address: int, size: int, site: int = 1, gpu: int = 0) -> None:
        self.note(journal.ALLOCATION, address, size, site, gpu)

    def free(self, address: int, gpu: int = 0, **flags: bool) -> None:
        self.note(journal.FREE_REQUESTED, address, 0, gpu=gpu, **flags)
        self.note(journal.FREE_COMPLETED, address, 0, gpu=gpu)

    def segment(self, size: int, gpu: int = 0) -> None:
        self.used[gpu] = self.used.get(gpu, 0) + size
        self.note(journal.SEGMENT_TAKEN, 0, size, gpu=gpu)


def test_a_peak_is_what_is_in_use_at_a_time() -> None:
    made = Journal()
    window = made.ledger.open()
    made.take(1, 10, site=1)
    made.take(2, 20, site=2)
    made.free(1)
    made.take(3, 5, site=3)
    assert window.peak() == (30, 0, {1: 10, 2: 20})


def test_waste_is_what_is_held_at_the_peak_and_in_nobodys_hands() -> None:
    made = Journal()
    window = made.ledger.open()
    made.segment(100)
    made.take(1, 60)
    made.segment(100)
    made.take(2, 70)
    made.free(1)
    made.free(2)
    made.segment(1000)
    made.take(3, 1)
    assert window.peak()[:2] == (130, 70)
    assert window.gpu_peak() == 1200


def test_workspaces_count_to_no_peak_and_are_no_waste() -> None:
    made = Journal()
    window = made.ledger.open()
    made.segment(100)
    made.take(1, 80, site=1)
    made.take(2, 15, site=2)
    made.free(1, frees_workspaces=True)
    assert window.peak() == (15, 5, {2: 15})


def test_what_another_stream_was_done_with_meanwhile_is_no_workspace() -> None:
    made = Journal()
    window = made.ledger.open()
    made.take(1, 80, site=1)
    made.note(journal.FREE_REQUESTED, 1, 0)
    made.note(journal.FREE_COMPLETED, 1, 0, frees_workspaces=True)
    assert window.peak() == (80, 0, {1: 80})


def test_after_the_end_of_its_peak_only_what_is_kept_counts() -> None:
    made = Journal()
    window = made.ledger.open()
    made.take(1, 10)
    window.end_peak()
    made.take(2, 500)
    made.free(1)
    assert window.peak()[0] == 10
    assert sum(block.bytes for block in made.ledger.live(window)) == 500


def test_gpus_have_peaks_of_their_own() -> None:
    made = Journal()
    window = made.ledger.open()
    made.take(1, 10, gpu=0)
    made.free(1, gpu=0)
    made.take(1, 20, gpu=1)
    assert window.peak()[0] == 30
