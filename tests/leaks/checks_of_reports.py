"""Small claims about reports, and the holders that they name: run_checks.py runs each function."""

from __future__ import annotations

import json
import os
import weakref

import frugal_alloc
from check_helpers import MIB, raising, tensor, without_collector
from frugal_alloc import _tracking


def report_keeps_nothing_alive():
    values = [tensor() for _ in range(3)]
    references = [weakref.ref(value) for value in values]
    extents = [[(value.data_ptr(), MIB, 0) for value in values]]
    with without_collector():
        evidence = _tracking.holders.find(extents) if hasattr(_tracking, "holders") else None
        frugal_alloc.report()
        del values
        assert [reference() for reference in references] == [None] * 3
    assert evidence is not None


def report_empties_no_variables_of_the_programs():
    one, two = tensor(), {"a": 1}
    mine = locals()
    from frugal_alloc._tracking import holders

    holders.find([[(one.data_ptr(), MIB, 0)]])
    assert mine["two"] is two
    assert "one" in mine


def holders_are_found_wherever_they_are():
    from frugal_alloc._tracking import holders

    class Box:
        def __init__(self):
            self.content = {"deep": [tensor()]}

    box = Box()
    enclosed = tensor()

    def function():
        return enclosed

    def generator():
        inner = tensor()
        yield inner
        yield

    running = generator()
    wanted = {
        "dict 'content' of Box": box.content["deep"][0],
        "tensor 'enclosed'": enclosed,
        "variable 'inner' of generator()": next(running),
    }
    found = holders.find([[(value.data_ptr(), MIB, 0)] for value in wanted.values()])
    del wanted["tensor 'enclosed'"]
    names = [[holder.name.what for holder in evidence.holders] for evidence in found]
    assert names[0] == ["dict 'content' of Box"] or "wanted" in names[0][0], names
    assert function() is enclosed
    del running


def report_is_json_that_others_read():
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


def report_is_written_whole_or_not_at_all():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "report.json")
        frugal_alloc.report().to_json(path)
        with open(path) as file:
            assert json.load(file)["version"] == 1
        assert os.listdir(folder) == ["report.json"]
        with raising(frugal_alloc.FrugalAllocError, "cannot be written"):
            frugal_alloc.report().to_json(os.path.join(folder, "none", "report.json"))


def report_has_colour_on_a_terminal_alone():
    import io

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    report = frugal_alloc.report()
    plain, coloured = io.StringIO(), Terminal()
    report.print(plain)
    report.print(coloured)
    assert plain.getvalue() == str(report)
    assert "\x1b" not in plain.getvalue()
    assert ("\x1b[" in coloured.getvalue()) == ("no leak" in str(report) or bool(report.verdicts))
