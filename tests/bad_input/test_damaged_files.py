"""Every file that is read may be damaged or made by a stranger: it is shown, or refused in one line with status 2."""

from __future__ import annotations

import gzip
import json
import pickle
import random
import resource
from pathlib import Path
from typing import Any

import damage
import frugal_alloc
import pytest
import report_samples as samples
from frugal_alloc._program.code_lines import CodeLine
from frugal_alloc._replay import history_files
from frugal_alloc._replay.history import EVENT, History
from frugal_alloc._tracking import declarations
from recordings import MIB, Recording, kineto

TENSORFLOW = Path(__file__).resolve().parents[1] / "reports" / "tensorflow"
REPORTS, LOGS, HISTORIES, SUPPRESSIONS = 250, 60, 1200, 2000


def reports() -> dict[str, bytes]:
    made = {make.__name__: make() for make in (samples.leaking, samples.out_of_memory, samples.hostile)}
    for document in made.values():
        for segment in document["segments"]:
            segment["blocks"] = segment["blocks"][:9]
        document["timeline"]["points"] = document["timeline"]["points"][:20]
    return {name: json.dumps(document).encode() for name, document in made.items()}


def logs() -> dict[str, bytes]:
    """TensorFlow's, cut to a size of which hundreds can be read."""
    return {path.name: gzip.decompress(path.read_bytes())[:60_000] for path in sorted(TENSORFLOW.glob("*.gz"))}


def histories() -> dict[str, bytes]:
    recording = Recording()
    for number in range(20):
        recording.allocate(number << 20, 1000 + number, stream=number % 3)
    for number in range(0, 20, 2):
        recording.request_free(number << 20, 1000 + number)
    snapshot = recording.survivor(1 << 20, 1001).snapshot()
    rows = [[0, number, 512 + number, number % 3] for number in range(10)] + [[1, number] for number in range(9)]
    return {
        "a snapshot": pickle.dumps(snapshot),
        "a snapshot in JSON": json.dumps(snapshot).encode(),
        "a trace": kineto([(number % 4, 512, MIB) for number in range(20)]),
        "a list of events": json.dumps({"frugal_alloc_history": 1, "events": [*rows, [1, 9, 1, 20]]}).encode(),
    }


# Of a damaged log more can be shown than of damaged JSON.
@pytest.mark.parametrize(
    ("make", "count", "least_refused"),
    [(reports, REPORTS, REPORTS // 4), (logs, LOGS, LOGS // 6)],
)
def test_a_damaged_report_is_shown_or_refused(
    make: Any, count: int, least_refused: int, command: Any, tmp_path: Path
) -> None:
    path, page = tmp_path / "damaged", tmp_path / "page.html"
    outputs = ([], ["--json"], ["--html", page], ["--compare", path], ["--memory-viz", tmp_path / "memory.pickle"])
    shown = refused = 0
    for case, data in damage.cases(make(), count, make.__name__):
        path.write_bytes(data)
        outcome = command("report", path, *outputs[(shown + refused) % len(outputs)])
        if outcome.status == 0:
            shown += 1
        else:
            outcome.assert_refused(case)
            assert str(path) in outcome.err, case
            refused += 1
        assert not list(tmp_path.glob("*.tmp")), case
    print(f"{make.__name__}: {shown} damaged files shown, {refused} refused")
    assert refused > least_refused
    assert shown > 0


def test_a_damaged_history_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    read = refused = 0
    for case, data in damage.cases(histories(), HISTORIES, "histories"):
        path.write_bytes(data)
        try:
            history = history_files.read(path)
        except history_files.HistoryError as error:
            refused += 1
            assert str(path) in str(error), case
            assert "\n" not in str(error), case
        else:
            read += 1
            assert_consistent(history, case)
    print(f"histories: {read} damaged files read, {refused} refused")
    assert refused > HISTORIES // 4
    assert read > 0


def assert_consistent(history: History, case: str) -> None:
    """What the C++ that plays the events relies on."""
    live: set[int] = set()
    made = 0
    for operation, allocation, size, stream, late_stream, ready in EVENT.iter_unpack(history.events):
        assert max(stream, late_stream) < history.stream_count <= 1024, case
        assert ready <= history.event_count, case
        if operation == 0:
            assert 0 < size <= 1 << 50, case
            live.add(allocation)
            made += 1
        else:
            assert operation == 1, case
            live.remove(allocation)
    assert made == history.allocation_count, case
    assert history.initial_count <= history.event_count == len(history.events) // EVENT.size, case


def test_damaged_suppressions_are_read_or_refused(tmp_path: Path) -> None:
    source = b"# of the old loader\nleak:train.py:42\n*:*/vendor/*  # theirs\ngrowing:[ab]?x*\ncycle:train_epoch\n"
    path, line = tmp_path / "damaged", CodeLine("/home/ada/train.py", 42, "train_epoch", "train")
    read = refused = 0
    for case, data in damage.cases({"a list": source}, SUPPRESSIONS, "suppressions"):
        path.write_bytes(data)
        try:
            found = declarations.read_suppressions(str(path))
        except frugal_alloc.FrugalAllocError as error:
            refused += 1
            assert "\n" not in str(error) and str(path) in str(error), case
            assert len(str(error)) < 1000, case
        else:
            read += 1
            for one in found:
                one.covers("leak", line)
    print(f"suppressions: {read} damaged files read, {refused} refused")
    assert min(read, refused) > SUPPRESSIONS // 20


def test_values_far_larger_than_their_file_take_bounded_memory(command: Any, tmp_path: Path) -> None:
    """A few bytes of a pickle, or a well-packed file, can ask for gigabytes."""
    bombs = {
        "memo": b"\x80\x04Nr\xff\xff\xff\x7f.",
        "bytearray": b"\x80\x05\x96\x00\x00\x00\x00\xff\x00\x00\x00.",
        "text": b"\x80\x04\x8d\x00\x00\x00\x00\xff\x00\x00\x00.",
        "frame": b"\x80\x04\x95\x00\x00\x00\x00\xff\x00\x00\x00]",
        "long": b"\x80\x04\x8b\xff\xff\xff\x7f\x01.",
        # Lists that hold each other twice: short to write, 2 to the 60 elements to go through.
        "doubling": b"\x80\x04]" + b"".join(b"](h%c0h%c0e" % (0, 0) for _ in range(2)) + b".",
        "zeros": gzip.compress(bytes(600 << 20), compresslevel=1),
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, data in bombs.items():
        path = tmp_path / name
        path.write_bytes(data)
        command("report", path).assert_refused(f"a report: {name}")
        if name != "zeros":  # one GiB is allowed to a history
            command("replay", path).assert_refused(f"a history: {name}")
        path.unlink()
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{len(bombs)} bombs took {grown_kib >> 10} MiB at most")
    assert grown_kib < 900 << 10


@pytest.mark.parametrize("depth", [900, 10_000, 1_000_000])
def test_deep_nesting_is_refused(depth: int, command: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep"
    for start, end in ((b"[", b"]"), (b'{"a":', b"}"), (b'{"schema":"frugal_alloc.report","version":1,"notes":[', b"")):
        path.write_bytes(start * depth + b"0" + end * depth)
        command("report", path).assert_refused(f"{start!r} {depth} times")
        command("replay", path).assert_refused(f"{start!r} {depth} times")
    path.write_bytes(b"\x80\x04" + b"]" * depth + b"a" * (depth - 1) + b".")
    command("replay", path).assert_refused(f"a pickle, {depth} deep")


def test_any_argument_is_taken_or_refused_in_one_line(command: Any, tmp_path: Path) -> None:
    """Words that are options, numbers, markup, or no text at all, anywhere on the command line."""
    options = ("--", "-", "-x", "-h=1", "--json", "--html", "--html=", "--compare", "--memory", "--gpu")
    values = ("min", "1e400GiB", "9" * 400 + "GiB", "-1", "0x10", "\u0661\u0662GiB", "nan", "%s%n", "@file", "=")
    words = [*damage.TEXTS, *options, *values, "\udcff\udcfe"]
    # What no program can be given.
    words = [word.replace("\x00", "\x01").replace("\ud800", "\udc80") for word in words]
    commands = ("report", "replay", "simulate", "doctor", "preload", "install-hook", "remove-hook", "run", "")
    tried = 200 * damage.ROUNDS
    for number in range(tried):
        chance = random.Random(f"arguments {damage.SEED} {number}")
        line = [chance.choice(commands), *(chance.choice(words) for _ in range(chance.randrange(1, 4)))]
        # What would run something, or change this Python, is another test's.
        if {"-h", "-h=1"} & set(line) or (line[0] in ("run", "simulate") and "--" in line):
            continue
        outcome = command(*line)
        if outcome.status != 0:
            outcome.assert_refused(f"arguments, seed {damage.SEED}, case {number}: {line!r:.300}")
    print(f"{tried} command lines")
