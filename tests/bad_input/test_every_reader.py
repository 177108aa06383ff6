"""Whatever is read may be damaged or made by a stranger: it is shown, or refused in one line with status 2."""

from __future__ import annotations

import gzip
import json
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import frugal_alloc
import hostile
import pytest
import report_samples as samples
import top_samples
from frugal_alloc._command.top import layout, picture, sockets
from frugal_alloc._common.messages import Refused
from frugal_alloc._planning.check import baseline
from frugal_alloc._planning.replay import history_files
from frugal_alloc._planning.replay.history import EVENT
from frugal_alloc._program.code_lines import CodeLine
from frugal_alloc._tracking import declarations
from recordings import MIB, Recording, kineto

TESTS = Path(__file__).resolve().parents[1]
REFUSALS = (Refused, frugal_alloc.FrugalAllocError, sockets.BadAnswer)


class Reader(NamedTuple):
    good: Callable[[], dict[str, bytes]]
    read: Callable[[Path, int], Any]  # raises one of REFUSALS; is given how many were read before
    count: int
    least_refused: int
    names_file: bool = True


def reports() -> dict[str, bytes]:
    made = {make.__name__: make() for make in (samples.leaking, samples.out_of_memory, samples.hostile)}
    for document in made.values():
        for segment in document["segments"]:
            segment["blocks"] = segment["blocks"][:9]
        document["timeline"]["points"] = document["timeline"]["points"][:20]
    return {name: json.dumps(document).encode() for name, document in made.items()}


def logs() -> dict[str, bytes]:
    """TensorFlow's, cut to a size of which hundreds can be read."""
    folder = TESTS / "reports" / "tensorflow"
    return {path.name: gzip.decompress(path.read_bytes())[:60_000] for path in sorted(folder.glob("*.gz"))}


def verdicts() -> dict[str, bytes]:
    return {"fit.json": (TESTS.parent / "docs" / "reports" / "examples" / "fit.json").read_bytes()}


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


def suppressions() -> dict[str, bytes]:
    lines = "# of the old loader\nleak:train.py:42\n*:*/vendor/*  # theirs\ngrowing:[ab]?x*\ncycle:train_epoch\n"
    return {"a list": lines.encode()}


def baselines() -> dict[str, bytes]:
    setting = baseline.Setting(memory=16 << 30, gpus=1, values="cpu", allocator="native")
    figures = baseline.Figures(gpu=7, waste=2, leaked=2, calls={"malloc": 2})
    return {"a baseline": baseline.to_text(baseline.Baseline.of(setting, "2.11.0", {"a": figures})).encode()}


def answers() -> dict[str, bytes]:
    parts = {"gpus": [top_samples.gpu()], "pools": [top_samples.POOL], "verdicts": [top_samples.VERDICT]}
    return {"an answer": json.dumps(top_samples.ANSWER | parts).encode()}


def read_history(path: Path, number: int) -> None:
    """Checks what the C++ that plays the events relies on."""
    history = history_files.read(path)
    live: set[int] = set()
    made = 0
    for operation, allocation, size, stream, late_stream, ready in EVENT.iter_unpack(history.events):
        assert max(stream, late_stream) < history.stream_count <= 1024
        assert ready <= history.event_count
        if operation == 0:
            assert 0 < size <= 1 << 50
            live.add(allocation)
            made += 1
        else:
            assert operation == 1
            live.remove(allocation)
    assert made == history.allocation_count
    assert history.initial_count <= history.event_count == len(history.events) // EVENT.size


def read_suppressions(path: Path, number: int) -> None:
    for one in declarations.read_suppressions(str(path)):
        one.covers("leak", CodeLine("/home/ada/train.py", 42, "train_epoch", "train"))


def read_answer(path: Path, number: int) -> None:
    process = picture._process(sockets.Process(1, sockets.parse(path.read_bytes())))
    assert all(line.text.isprintable() for line in layout.lines(top_samples.of(process)))


@pytest.fixture
def readers(command: Any, tmp_path: Path) -> dict[str, Reader]:
    def show(path: Path, number: int) -> None:
        out = tmp_path / "out"
        ways = ([], ["--json"], ["--html", out], ["--compare", path], ["--memory-viz", out])
        refused_or_shown(["report", path, *ways[number % len(ways)]])

    def show_verdict(path: Path, number: int) -> None:
        refused_or_shown(["report", path, *([], ["--html", tmp_path / "out"])[number % 2]])

    def refused_or_shown(words: list[Any]) -> None:
        outcome = command(*words)
        if outcome.status != 0:
            outcome.assert_refused(str(words))
            raise Refused(outcome.err.rstrip("\n"))
        assert not list(tmp_path.glob("*.tmp"))

    return {
        "a report": Reader(reports, show, 250, 60),
        # Of a damaged log more can be shown than of damaged JSON.
        "a log of TensorFlow": Reader(logs, show, 60, 10),
        "a verdict of fit": Reader(verdicts, show_verdict, 100, 25),
        "a history": Reader(histories, read_history, 1200, 300),
        "a list of suppressions": Reader(suppressions, read_suppressions, 2000, 100),
        "a baseline": Reader(baselines, lambda path, _: baseline.read(str(path)), 300, 75),
        "an answer of a process": Reader(answers, read_answer, 600, 150, names_file=False),
    }


KINDS = (
    *("a report", "a log of TensorFlow", "a verdict of fit", "a history", "a list of suppressions", "a baseline"),
    "an answer of a process",
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_damaged_is_shown_or_refused_in_one_line(kind: str, readers: Any, tmp_path: Path) -> None:
    reader, path = readers[kind], tmp_path / "damaged"
    shown = refused = 0
    for case, data in hostile.cases(reader.good(), reader.count, kind):
        path.write_bytes(data)
        try:
            reader.read(path, shown + refused)
            shown += 1
        except REFUSALS as error:
            refused += 1
            hostile.assert_one_line(str(error), case)
            assert str(path) in str(error) or not reader.names_file, case
        except Exception as error:
            raise AssertionError(case) from error
    print(f"{kind}: {shown} damaged ones shown, {refused} refused")
    assert refused > reader.least_refused
    assert shown > reader.count // 100


@pytest.mark.parametrize("thing", [*hostile.THINGS, "a file in a file"])
@pytest.mark.parametrize("kind", ["a report", "a history", "a list of suppressions", "a baseline"])
def test_what_is_no_file_is_refused_and_named(kind: str, thing: str, readers: Any, tmp_path: Path) -> None:
    path = tmp_path / "given"
    hostile.THINGS.get(thing, Path.touch)(path)
    path = path / "inside" if thing == "a file in a file" else path
    with pytest.raises(REFUSALS) as refused:
        readers[kind].read(path, 0)
    hostile.assert_one_line(str(refused.value), thing)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("thing", hostile.THINGS)
@pytest.mark.parametrize("words", [["report"], ["replay"], ["report", "GOOD", "--compare"]], ids=" ".join)
def test_a_command_is_given_what_is_no_file(words: list[str], thing: str, command: Any, tmp_path: Path) -> None:
    good, odd = tmp_path / "good.json", tmp_path / "given"
    good.write_text(json.dumps(samples.healthy()))
    hostile.THINGS[thing](odd)
    outcome = command(*(good if word == "GOOD" else word for word in words), odd)
    outcome.assert_refused(thing)
    assert str(odd) in outcome.err


@pytest.mark.parametrize("kind", hostile.NAMES)
def test_a_file_of_any_name_is_shown_or_refused(kind: str, command: Any, tmp_path: Path) -> None:
    path = tmp_path / hostile.NAMES[kind].replace("/", "")
    for state in ("missing", "bad"):
        for subcommand in ("report", "replay"):
            command(subcommand, path).assert_refused(f"{subcommand}: {state}, a name {kind}")
        if kind == "too long":
            return
        path.write_bytes(b"no report")
    path.write_text(json.dumps(samples.healthy()))
    assert command("report", path).status == 0


# Root may read anything, so it becomes a user who may read hardly anything. That user may not even find the package,
# where it lies in somebody's home: so what the command imports for good files and missing ones is imported before.
_AS_NOBODY = """
import contextlib, io, os, sys
from frugal_alloc._command import cli
command, good, path = sys.argv[1:]
for first in (good, "absent"):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with contextlib.suppress(SystemExit):
            cli.main([command, first])
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
cli.main([command, path])
"""


@pytest.mark.parametrize("path", ["private.json", "closed/report.json"])
@pytest.mark.parametrize("subcommand", ["report", "replay"])
def test_a_file_that_may_not_be_read_is_refused(subcommand: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    for name in ("good.json", "private.json", "closed/report.json"):
        (tmp_path / name).write_text(json.dumps(samples.healthy()))
    (tmp_path / "private.json").chmod(0)
    (tmp_path / "closed").chmod(0)
    # The folders above may be closed to others, too: so the names are relative.
    tmp_path.chmod(0o755)
    line = [sys.executable, "-c", _AS_NOBODY, subcommand, "good.json", path]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    (tmp_path / "closed").chmod(0o700)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert "Permission denied" in done.stderr


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


def report(**changes: Any) -> dict[str, Any]:
    return samples.healthy() | changes


def answer(**changes: Any) -> dict[str, Any]:
    return top_samples.ANSWER | changes


def blocks(*rows: list[Any]) -> dict[str, Any]:
    return report(segments=[{"gpu": 0, "address": 0, "bytes": 1, "blocks": rows}])


def events(*rows: Any, **others: Any) -> dict[str, Any]:
    return {"frugal_alloc_history": 1, "events": rows, **others}


A, B, FREE_A, FREE_B = [0, 0, 700, 0], [0, 1, 300, 1], [1, 0], [1, 1]
PROFILE = (
    "it is a profile of TensorFlow, and those are not read: open it in TensorBoard, or print the step and tf.config"
)
NEITHER = "it is neither a report of frugal_alloc nor a TensorFlow log with a dump of the BFC allocator"
# What is not of the right shape is tests/reports/test_shapes.py's.
SAID: tuple[tuple[str, Any, str], ...] = (
    ("a report", b"", "is empty"),
    ("a report", b"{", "is damaged (JSON:"),
    ("a report", b"[" * 100_000, "is damaged (JSON:"),
    ("a report", b"hello\n", NEITHER),
    ("a report", [], "it is not a report of frugal_alloc"),
    ("a report", {"schema": ["frugal_alloc.report"]}, "it is not a report of frugal_alloc"),
    ("a report", report(schema="frugal_alloc.comparison"), "it is not a report of frugal_alloc"),
    ("a report", report(version=2), "it is of version 2, and this frugal_alloc knows 1; install a newer one"),
    ("a report", report(version="1"), "it does not say which version"),
    ("a report", report(version=True), "it does not say which version"),
    ("a report", report(sites=7), "sites: a list is wanted, not 7"),
    ("a report", report(verdicts=[{"kind": "theft"}]), "verdicts[0].kind: one of leak, suspect"),
    ("a report", report(verdicts=[{"kind": "leak", "stack": [99]}]), "a stack names a frame, but there are only 11"),
    ("a report", report(gpus=[{"gpu": 1 << 17}]), "gpus[0].gpu: a number from 0 to 65536 is wanted"),
    ("a report", blocks([0, 1, "lost", None]), "blocks[0][2]: one of allocated, awaiting, free is wanted"),
    ("a report", blocks([0, 1, "free", 9]), "a block names a site, but there are only 4"),
    ("a report", report(timeline={"points": [[0, 0, 0, 0, 1, 1, 1]]}), "names a phase, but there are only 0"),
    ("a report", report(oom={}), "oom: verdict is missing"),
    ("a report", report(oom={"verdict": "leak", "stack": [11]}), "a stack names a frame, but there are only 11"),
    ("a report", report(ranks=[{"verdicts": [{"kind": "leak", "stack": [0]}]}]), "but there are only 0"),
    # An empty plane, that of the host as TensorFlow writes it, and TensorBoard's tool "memory_profile".
    ("a log of TensorFlow", b"\n\x02\x08\x01", PROFILE),
    ("a log of TensorFlow", b"\n\x98\x80\xc4\x01\x12\x09/host:CPU" + bytes(100), PROFILE),
    ("a log of TensorFlow", b' {"memoryProfilePerAllocator": 7}', PROFILE),
    ("a verdict of fit", {"version": 1 << 20, "verdicts": []}, "run it again"),
    ("an answer of a process", b"garbage", "its answer is no JSON"),
    ("an answer of a process", b"\xff\xfe", "its answer is no JSON"),
    ("an answer of a process", b"[" * 100_000, "its answer is no JSON"),
    ("an answer of a process", b'{"a": ' + b"9" * 100_000 + b"}", "its answer is no JSON"),
    ("an answer of a process", [], "its answer is not frugal_alloc's"),
    ("an answer of a process", {}, "its answer is not frugal_alloc's"),
    ("an answer of a process", answer(version=2), "it answers as another version of frugal_alloc does"),
    ("an answer of a process", answer(command=["x"] * 2000), "damaged: command: a list of at most 1024 values is"),
    ("an answer of a process", answer(verdicts=[{"kind": "x"}]), "its answer is damaged: verdicts[0]"),
    (
        "an answer of a process",
        answer(gpus=[top_samples.gpu(waste_bytes=-1)]),
        "damaged: gpus[0].waste_bytes: a number",
    ),
    ("a history", events(), "it has no event"),
    ("a history", events() | {"events": "none"}, "its events is str, not a list"),
    *(
        ("a history", events(row), f"event 0 is {said}")
        for row, said in (
            (3, "3, not a list of numbers"),
            (["alloc", 0, 1, 0], ""),
            ([False, 0, 1, 0], ""),
            ([0, 0, 1.5, 0], ""),
            ([2, 0], ""),
            ([0, 0, 512], ""),
            ([0, 0, 512, -1], "on stream -1"),
            ([0, 0, 512, 1024], "on stream 1024"),
        )
    ),
    ("a history", events(B), "event 0 makes allocation 1, and the next is 0"),
    ("a history", events(A, A), "event 1 makes allocation 0, and the next is 1"),
    ("a history", events([0, 0, 0, 0]), "event 0 has 0 bytes"),
    ("a history", events([0, 0, 1 << 60, 0]), f"event 0 has {1 << 60} bytes"),
    ("a history", events(FREE_A), "event 0 frees allocation 0, which is not allocated then"),
    ("a history", events(A, FREE_A, FREE_A), "event 2 frees allocation 0"),
    ("a history", events(A, [1, 0, 1, 1]), "event 1 is ready at 1"),
    ("a history", events(A, [1, 0, 1, 3]), "event 1 is ready at 3"),
    ("a history", events(A, B, [1, 0, 1, 6], [1, 1, 1, 5], [0, 2, 1, 0], [0, 3, 1, 0]), "event 3 is ready at 5"),
    ("a history", events(A, B, FREE_A, FREE_B, turn_ends=[2, 1]), "turn_ends do not ascend"),
    ("a history", events(A, B, FREE_A, FREE_B, turn_ends=[5]), "'turn_ends' is 5"),
    ("a history", events(A, B, FREE_A, FREE_B, turn_ends=["1"]), "'turn_ends' is \"1\""),
    ("a history", events(A, B, FREE_A, FREE_B, warm_up_end=5), "'warm_up_end' is 5"),
    ("a history", events(A, B, FREE_A, FREE_B, stream_lag="3"), "'stream_lag' is \"3\""),
    ("a history", events(A, frugal_alloc_history=2), "it is of version 2"),
    ("a history", events(A, frugal_alloc_history="1"), 'it is of version "1"'),
)


@pytest.mark.parametrize(("kind", "content", "said"), SAID, ids=[said[:40] for _, _, said in SAID])
def test_it_is_said_what_is_wrong(kind: str, content: Any, said: str, readers: Any, tmp_path: Path) -> None:
    path = tmp_path / "given"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(REFUSALS) as refused:
        readers[kind].read(path, 0)
    hostile.assert_one_line(str(refused.value), said)
    assert said in str(refused.value)
    assert str(path) in str(refused.value) or not readers[kind].names_file
