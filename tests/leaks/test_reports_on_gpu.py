"""Reports, and the holders that they name. Runs on the simulated GPU."""

from __future__ import annotations

import gc
import io
import json
import os
import weakref
from pathlib import Path

import frugal_alloc
import pytest
from frugal_alloc._tracking import holders
from tensors_on_gpu import MIB, tensor

pytestmark = pytest.mark.usefixtures("tracking")


def test_report_keeps_nothing_alive() -> None:
    values = [tensor() for _ in range(3)]
    references = [weakref.ref(value) for value in values]
    extents = [[(value.data_ptr(), MIB, 0) for value in values]]
    gc.collect()
    gc.disable()  # what is freed is freed for want of references
    try:
        (evidence,) = holders.find(extents)
        frugal_alloc.report()
        del values
        assert [reference() for reference in references] == [None] * 3
    finally:
        gc.enable()
    assert evidence.holders


def test_report_empties_no_variables_of_the_programs() -> None:
    one, two = tensor(), {"a": 1}
    mine = locals()
    holders.find([[(one.data_ptr(), MIB, 0)]])
    assert mine["two"] is two
    assert "one" in mine


def test_report_is_json_that_others_read() -> None:
    kept = [tensor()]
    document = json.loads(frugal_alloc.report().to_json())
    assert (document["schema"], document["version"]) == ("frugal_alloc.report", 1)
    assert document["run"]["pid"] == os.getpid()
    assert document["gpus"][0]["allocated_bytes"] >= MIB
    site = next(site for site in document["sites"] if site["bytes"] == MIB and site["function"] == "tensor")
    assert "tensor" in [document["frames"][number]["function"] for number in site["stack"]]
    assert document["timeline"]["phases"][0] == ""
    blocks = [block for segment in document["segments"] for block in segment["blocks"]]
    assert any(block[2] == "allocated" and block[3] is not None for block in blocks)
    del kept


def test_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    frugal_alloc.report().to_json(path)
    assert json.loads(path.read_text())["version"] == 1
    assert os.listdir(tmp_path) == ["report.json"]
    with pytest.raises(frugal_alloc.FrugalAllocError, match="cannot be written"):
        frugal_alloc.report().to_json(tmp_path / "none" / "report.json")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_report_has_colour_on_a_terminal_alone() -> None:
    report = frugal_alloc.report()
    plain, coloured = io.StringIO(), Terminal()
    report.print(plain)
    report.print(coloured)
    assert plain.getvalue() == str(report)
    assert "\x1b" not in plain.getvalue()
    assert ("\x1b[" in coloured.getvalue()) == ("no leak" in str(report) or bool(report.verdicts))
