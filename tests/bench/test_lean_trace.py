"""bench/lean_trace.py: a trace without what no replay reads is the same history."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from frugal_alloc._replay import history_files

from bench import lean_trace


def memory(number: int, address: int, size: int, total: int) -> dict:
    arguments = {"Ev Idx": number, "Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": size}
    return {"name": "[memory]", "ts": 10 * number, "args": arguments | {"Total Allocated": total}}


def write(folder: Path) -> Path:
    """Two tensors on top of 20 MiB that no event explains, with a kernel between them."""
    first, second = memory(1, 0x1000, 4096, (20 << 20) + 4096), memory(3, 0x9000, 512, (20 << 20) + 4608)
    kernel = {"name": "gemm", "ts": 20, "dur": 5, "args": {"stream": 7}}
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [kernel, second, "odd", first]}))
    return path


def test_a_lean_trace_is_the_same_history_in_fewer_entries(tmp_path: Path) -> None:
    source, target = write(tmp_path), tmp_path / "lean.json.xz"
    assert lean_trace.main([str(source), str(target)]) == 0
    whole, lean = (dataclasses.replace(history_files.read(path), name="") for path in (source, target))
    assert lean == whole
    assert whole.event_count > 2
    trace = lean_trace.lean(json.loads(source.read_text()))
    assert (trace["schemaVersion"], len(trace["traceEvents"])) == (1, 2)


@pytest.mark.parametrize("content", ["{}", '{"traceEvents": 3}', "[]", "no json"])
def test_what_is_no_trace_is_refused_in_one_line(content: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    source, target = tmp_path / "trace.json", tmp_path / "lean.json.xz"
    source.write_text(content)
    assert lean_trace.main([str(source), str(target)]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"lean_trace: {source}") and errors.count("\n") == 1
    assert not target.exists()
