"""bench/recordings: the same seed makes the same recording again, and no recording is here that may not be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from frugal_alloc._planning.replay import history_files
from frugal_alloc._planning.replay.history import EVENT, History

from bench import recordings
from bench.recordings import __main__ as command

HISTORIES = Path(__file__).resolve().parents[2] / "bench" / "histories"
# Of others, by the start of the file's name: the terms that its source gives.
TERMS = {"hta_": "LICENSE.HolisticTraceAnalysis", "mosaic": "LICENSE.mosaic"}


def data_files() -> list[Path]:
    return sorted(path for path in HISTORIES.iterdir() if path.suffix in (".xz", ".gz", ".pickle", ".json"))


@pytest.mark.parametrize("file", data_files(), ids=lambda file: file.name)
def test_a_recording_is_made_by_a_program_here_or_has_its_terms_beside_it(file: Path) -> None:
    if file.name.split(".")[0] in recordings.NAMES:
        return
    (terms,) = (HISTORIES / terms for start, terms in TERMS.items() if file.name.startswith(start))
    assert "Copyright (c)" in terms.read_text()
    assert f"[{terms.name}]({terms.name})" in (HISTORIES / "README.md").read_text()


def test_each_program_has_its_recording_and_its_line_in_the_table() -> None:
    table = (HISTORIES / "README.md").read_text()
    for name in recordings.NAMES:
        assert recordings.file_of(name) in data_files()
        assert f"| `{name}` |" in table


def test_all_recordings_together_are_small() -> None:
    assert sum(path.stat().st_size for path in data_files()) < 3 << 20


@pytest.mark.skipif(
    not torch.__version__.startswith(f"{recordings.TORCH}."),
    reason=f"recorded with torch {recordings.TORCH}: another one may allocate otherwise",
)
def test_the_same_seed_makes_the_same_events_again_whatever_the_user_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync")
    monkeypatch.setenv("FRUGAL_ALLOC", "1")
    monkeypatch.setenv("FRUGAL_SIM_KERNEL_NS", "1000000")
    made, kept = recordings.record("gpt_inference"), history_files.read(recordings.file_of("gpt_inference"))
    assert made.events == kept.events
    assert (made.initial_count, made.peak_live_bytes) == (0, kept.peak_live_bytes)


def test_a_packed_recording_is_read_as_it_was_made(tmp_path: Path, recorded: History) -> None:
    path = recordings.file_of("made", tmp_path)
    recordings.write(recorded, path)
    assert history_files.read(path).events == recorded.events


def test_frees_that_follow_one_another_are_in_the_order_of_their_allocations() -> None:
    allocations = [(0, number, 512, 0, 0, 0) for number in range(4)]
    frees = [(1, 2, 0, 0, 0, 0), (1, 0, 0, 0, 0, 0), (1, 3, 0, 0, 1, 9), (1, 1, 0, 0, 0, 0), (0, 4, 512, 0, 0, 0)]
    events = b"".join(EVENT.pack(*row) for row in allocations + frees)
    found = recordings._with_frees_in_order(History("made", events, 0, 5, 2))
    # The one that is late stays where it is: it ends the run of frees before it.
    in_order = [*allocations, frees[1], frees[0], *frees[2:]]
    assert list(EVENT.iter_unpack(found.events)) == in_order


@pytest.fixture
def recorded() -> History:
    """With a free that is late on a second stream."""
    rows = [(0, 0, 4096, 0, 0, 0), (0, 1, 512, 1, 0, 0), (1, 0, 0, 0, 1, 4), (1, 1, 0, 0, 0, 0)]
    events = b"".join(EVENT.pack(*row) for row in rows)
    return History("made", events, 0, 2, 2)


def test_a_program_that_fails_says_why_in_one_line_and_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(name: str, seed: int) -> History:
        raise recordings.RecordingFailed(f"{name} ended with status 1: out of memory")

    monkeypatch.setattr(command, "record", fails)
    kept = recordings.file_of("gpt60", tmp_path)
    kept.write_text("as it was")
    assert command.main(["gpt60", "--folder", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "bench.recordings: gpt60 ended with status 1: out of memory\n"
    assert kept.read_text() == "as it was"
