"""What a recording that is out to do harm can take: memory, and the terminal of whoever reads the error."""

from __future__ import annotations

import json
import lzma
import pickle
import re
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from frugal_alloc._common import host_memory
from frugal_alloc._planning.replay import history_files
from recordings import MIB, Recording


def grown_mib(path: Path) -> tuple[str, int]:
    """What reading a file ends in, and how many MiB a fresh process takes for it at its peak."""
    program = """
import resource, sys
from frugal_alloc._planning.replay import history_files
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    history_files.read(sys.argv[1])
    outcome = "read"
except history_files.HistoryError as error:
    outcome = str(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before >> 10, outcome)
"""
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    grown, _, outcome = done.stdout.rstrip("\n").partition(" ")
    return outcome, int(grown)


def text(value: str) -> bytes:
    """Opcodes of a pickle, as those that follow."""
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def several(*values: bytes) -> bytes:
    return b"](" + b"".join(values) + b"e"


def mapping(**values: bytes) -> bytes:
    return b"}(" + b"".join(text(name) + value for name, value in values.items()) + b"u"


ONE = b"K\x01"
ENTRY = {"action": text("alloc"), "addr": ONE, "size": ONE, "stream": ONE}
BOMBS = {
    # 72 bytes each.
    "empty dictionaries": several(b"}" * 6_000_000),
    # Two bytes for each time that it is there again; events are made from it.
    "one entry over and over": mapping(
        segments=several(), device_traces=several(several(mapping(**ENTRY), b"q\x00", b"h\x00" * 1_000_000))
    ),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_small_file_does_not_take_much_memory(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(lzma.compress(b"\x80\x04" + BOMBS[kind] + b"."))
    assert path.stat().st_size < 4096
    outcome, mib = grown_mib(path)
    assert "malicious" in outcome
    assert str(path) in outcome
    assert mib < 360


def test_no_more_than_a_part_of_what_memory_is_free_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"traceEvents": [{"name": "x" * 20, "number": number} for number in range(1 << 20)]}))
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 128 * MIB)
    with pytest.raises(history_files.HistoryError) as refused:
        history_files.read(path)
    assert re.fullmatch(f"{path} takes more than half of the memory that is free, 128.00 MiB; .*", str(refused.value))


@pytest.mark.parametrize("number", [1 << 20_000, -(1 << 20_000)], ids=["positive", "negative"])
def test_number_too_long_to_be_written_is_refused(number: int, recording: Recording, tmp_path: Path) -> None:
    snapshot = recording.allocate(1, 1).snapshot()
    snapshot["device_traces"][0][0]["addr"] = number
    path = tmp_path / "history"
    path.write_bytes(pickle.dumps(snapshot))
    with pytest.raises(history_files.HistoryError, match=r"'addr' is .*, not a number from 0 to") as refused:
        history_files.read(path)
    assert len(str(refused.value)) < len(str(path)) + 300


VALUES = {
    "deep": b"]" * 200_000 + b"a" * 199_999,
    # A text of 100 KB two thousand times, in four bytes each.
    "huge": several(text("x" * 100_000), b"q\x00", b"h\x00" * 2000),
    # Lists that have each other twice.
    "doubling": b"".join((b"]q\x00", *(b"](h%ch%ceq%c" % (n, n, n + 1) for n in range(60)))),
}
INSTANT = {"Device Type": ONE, "Ev Idx": ONE, "Device Id": ONE}
PLACES: dict[str, Callable[[bytes], bytes]] = {
    "a row": lambda value: mapping(frugal_alloc_history=ONE, events=several(several(value))),
    "the version": lambda value: mapping(frugal_alloc_history=value),
    "an address": lambda value: mapping(device_traces=several(several(mapping(**ENTRY | {"addr": value})))),
    "a size of a trace": lambda value: mapping(
        traceEvents=several(mapping(name=text("[memory]"), ts=ONE, args=mapping(**INSTANT, Bytes=value)))
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_value_that_cannot_be_there_is_named_in_short(place: str, tmp_path: Path) -> None:
    path = tmp_path / "history"
    for value in VALUES.values():
        path.write_bytes(b"\x80\x04" + PLACES[place](value) + b".")
        tracemalloc.start()
        try:
            with pytest.raises(history_files.HistoryError) as refused:
                history_files.read(path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert "\n" not in str(refused.value)
        assert str(path) in str(refused.value)
        assert len(str(refused.value)) < len(str(path)) + 300
        # Deep lists take 18 MB.
        assert peak < 40 * MIB
