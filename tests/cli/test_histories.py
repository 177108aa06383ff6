"""What the readers make of recordings, good and bad."""

from __future__ import annotations

import gzip
import lzma
import pickle
import resource
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._common import recorded_files
from frugal_alloc._planning.replay import history_files
from frugal_alloc._planning.replay.history import EVENT, History
from recordings import MIB, Recording, kineto

ALLOCATE, FREE = 0, 1


def events(history: History) -> list[tuple[int, ...]]:
    """(operation, allocation, size, stream, late stream, ready) of each."""
    return list(EVENT.iter_unpack(history.events))


def read(recording: Recording, tmp_path: Path) -> History:
    return history_files.read(recording.write(tmp_path / "recording.pickle"))


def test_snapshot_becomes_its_allocations_and_frees_in_order(recording: Recording, tmp_path: Path) -> None:
    recording.allocate(0x1000, 700).allocate(0x2000, 300).free(0x1000, 700).allocate(0x1000, 50)

    history = read(recording, tmp_path)

    assert events(history) == [
        (ALLOCATE, 0, 700, 0, 0, 0),
        (ALLOCATE, 1, 300, 0, 0, 0),
        (FREE, 0, 0, 0, 0, 0),
        (ALLOCATE, 2, 50, 0, 0, 0),
    ]
    assert (history.event_count, history.initial_count, history.allocation_count) == (4, 0, 3)
    assert history.peak_live_bytes == 1000


def test_what_was_allocated_before_the_recording_is_placed_first_by_address(
    recording: Recording, tmp_path: Path
) -> None:
    recording.allocate(0x5000, 10).free(0x3000, 500).survivor(0x1000, 900).survivor(0x5000, 10)

    history = read(recording, tmp_path)

    assert history.initial_count == 2
    assert events(history) == [
        (ALLOCATE, 2, 900, 0, 0, 0),
        (ALLOCATE, 1, 500, 0, 0, 0),
        (ALLOCATE, 0, 10, 0, 0, 0),
        (FREE, 1, 0, 0, 0, 0),
    ]
    assert history.peak_live_bytes == 1410


def test_recording_with_completions_only_is_read_by_them(recording: Recording, tmp_path: Path) -> None:
    recording.allocate(0x1000, 8).complete_free(0x1000, 8)
    assert [event[0] for event in events(read(recording, tmp_path))] == [ALLOCATE, FREE]


def test_memory_freed_but_in_use_counts_as_live_until_its_free_completes(recording: Recording, tmp_path: Path) -> None:
    recording.allocate(0x1000, 100).request_free(0x1000, 100).allocate(0x2000, 20)
    recording.complete_free(0x1000, 100).allocate(0x3000, 3)

    history = read(recording, tmp_path)

    late_stream = 1
    assert events(history)[1] == (FREE, 0, 0, 0, late_stream, 3)
    assert history.stream_count == 2
    assert history.peak_live_bytes == 120


def test_free_that_never_completes_is_late_to_the_end_and_no_survivor(recording: Recording, tmp_path: Path) -> None:
    recording.allocate(0x1000, 100).request_free(0x1000, 100).allocate(0x2000, 20)
    recording.survivor(0x1000, 100, state="active_awaiting_free").survivor(0x2000, 20)

    history = read(recording, tmp_path)

    assert history.initial_count == 0
    assert events(history)[1][-1] == history.event_count == 3


def test_late_frees_share_a_stream_where_one_stream_could_have_done_both(recording: Recording, tmp_path: Path) -> None:
    for address in (0x1000, 0x2000, 0x3000):
        recording.allocate(address, 100)
    recording.request_free(0x1000, 100).request_free(0x2000, 100).request_free(0x3000, 100)
    recording.allocate(0x4000, 1).complete_free(0x2000, 100).allocate(0x5000, 1).complete_free(0x1000, 100)
    recording.allocate(0x6000, 1).complete_free(0x3000, 100)

    late = [event[4:] for event in events(read(recording, tmp_path)) if event[0] == FREE]

    # The first is done last but one, hence the second cannot be behind it; the third can.
    assert late == [(1, 8), (2, 7), (1, 9)]


def test_streams_are_numbered_and_the_default_stream_is_zero(recording: Recording, tmp_path: Path) -> None:
    recording.allocate(0x1000, 1, stream=77).allocate(0x2000, 1, stream=0).allocate(0x3000, 1, stream=5)
    history = read(recording, tmp_path)
    assert [event[3] for event in events(history)] == [1, 0, 2]
    assert history.stream_count == 3


def test_of_several_devices_the_busiest_is_read(recording: Recording, tmp_path: Path) -> None:
    snapshot = recording.allocate(0x1000, 7).snapshot()
    snapshot["device_traces"] = [[], recording.trace, recording.trace[:0]]
    path = tmp_path / "devices.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    assert history_files.read(path).event_count == 1


def test_kineto_places_what_no_event_explains_in_pieces_of_16_mib(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    # 40 MiB before: 5 of them are freed in the trace.
    path.write_bytes(kineto([(0x9000, MIB, 41 * MIB), (0x8000, -5 * MIB, 36 * MIB), (0x9000, -MIB, 35 * MIB)]))

    history = history_files.read(path)

    sizes = [event[2] for event in events(history)[: history.initial_count]]
    assert sorted(sizes) == [3 * MIB, 5 * MIB, 16 * MIB, 16 * MIB]
    assert history.peak_live_bytes == 41 * MIB


@pytest.mark.parametrize("pack", [bytes, lzma.compress, gzip.compress], ids=["plain", "xz", "gzip"])
@pytest.mark.parametrize("kind", ["snapshot", "kineto"])
def test_packing_is_told_by_content_not_by_name(kind: str, pack: Any, recording: Recording, tmp_path: Path) -> None:
    data = kineto([(0x9000, 512, 512)]) if kind == "kineto" else pickle.dumps(recording.allocate(1, 512).snapshot())
    path = tmp_path / "recording.bin"
    path.write_bytes(pack(data))
    assert history_files.read(path).peak_live_bytes == 512


def test_history_of_the_project_is_found_by_its_name() -> None:
    history = history_files.read(history_files.find("mosaic"))
    assert (history.name, history.event_count, history.stream_count) == ("mosaic.pickle.xz", 1057, 4)


class _Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("this must not be run",)


def _damaged() -> dict[str, tuple[bytes, str]]:
    good = pickle.dumps(Recording().allocate(1, 512).snapshot())
    entry = {"action": "alloc", "addr": 1, "size": 512, "stream": 0}

    def with_entry(**changes: Any) -> bytes:
        return pickle.dumps({"device_traces": [[{**entry, **changes}]], "segments": []})

    return {
        "empty": (b"", "is empty"),
        "cut short": (good[:-20], "damaged"),
        "cut-short xz": (lzma.compress(good)[:-20], "damaged or cut short"),
        "text": (b"not a history\n", "neither a pickle nor JSON"),
        "broken JSON": (b'{"traceEvents": [', "damaged (JSON"),
        "other JSON": (b'{"a": 1}', "is no allocation history"),
        "other pickle": (pickle.dumps([1, 2]), "is no allocation history"),
        "malicious": (pickle.dumps(_Malicious()), "builtins.print"),
        "persistent id": (b"\x80\x04Pid\n.", "refers to objects outside itself"),
        "nothing recorded": (pickle.dumps({"device_traces": [[]], "segments": []}), "_record_memory_history"),
        "no device": (pickle.dumps({"device_traces": [], "segments": []}), "it has no device"),
        "no segments": (pickle.dumps({"device_traces": [[entry]]}), "its segments is NoneType"),
        "negative size": (with_entry(size=-1), "'size' is -1"),
        "absurd size": (with_entry(size=1 << 60), "'size' is 1152921504606846976"),
        "text for a number": (with_entry(addr="0x10"), "'addr' is \"0x10\""),
        "truth for a number": (with_entry(stream=True), "'stream' is true"),
        "no action": (with_entry(action=None), "has no action"),
        "Kineto without bytes": (kineto([(1, 512, 512)], Bytes=None), "'Bytes' is null"),
        "Kineto without total": (kineto([(1, 512, 512)], **{"Total Allocated": "x"}), "'Total Allocated' is \"x\""),
        "Kineto without memory": (b'{"traceEvents": []}', "profile_memory=True"),
    }


@pytest.mark.parametrize("case", _damaged())
def test_bad_file_gets_one_line_that_names_it_and_status_2(case: str, tmp_path: Path, command: Any) -> None:
    data, expected = _damaged()[case]
    path = tmp_path / "bad.pickle"
    path.write_bytes(data)

    outcome = command("replay", path)
    outcome.assert_refused(case)
    assert str(path) in outcome.err and expected in outcome.err


def test_missing_file_is_named_with_the_histories_there_are(command: Any) -> None:
    outcome = command("replay", "no-such-history")
    assert outcome.status == 2
    assert "no-such-history does not exist" in outcome.err
    assert "gpt60" in outcome.err


def test_file_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_files, "MAX_UNPACKED_BYTES", 64 * MIB)
    path = tmp_path / "bomb.xz"
    path.write_bytes(lzma.compress(bytes(65 * MIB)))
    outcome = command("replay", path)
    assert outcome.status == 2
    assert "unpacks to more than" in outcome.err


def test_reading_leaves_the_memory_limit_of_the_process_as_it_was(recording: Recording, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    read(recording.allocate(1, 1), tmp_path)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


def test_more_streams_than_can_be_made_are_refused(recording: Recording, tmp_path: Path) -> None:
    for stream in range(2000):
        recording.allocate(stream << 20, 1, stream=stream)
    with pytest.raises(history_files.HistoryError, match="more than 1024 streams"):
        read(recording, tmp_path)
