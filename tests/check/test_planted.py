"""Changes that take more memory are found, each at its test and line, and nothing else is, though lines have moved."""

from __future__ import annotations

from typing import Any

import planted
import pytest
from checked_project import Project

CHANGED = planted.changed()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    project = Project(tmp_path_factory.mktemp("planted"))
    project.write("test_it.py", planted.HEALTHY)
    made = project.check("--values", "none", "--update")
    assert made.status == 0, made.err
    project.write("test_it.py", CHANGED)
    outcome = project.check("--json")
    assert outcome.status == 1
    return {change["name"].removeprefix("test_it.py::"): change for change in outcome.json["regressions"]}


def test_each_change_is_found_and_no_other(found: Any) -> None:
    assert sorted(found) == sorted(planted.CHANGES)
    assert len(found) >= 10


@pytest.mark.parametrize("name", planted.CHANGES)
def test_it_is_told_at_its_line(found: Any, name: str) -> None:
    change, told = planted.CHANGES[name], found[name]
    if change.figure == "calls":
        assert told["growths"] == [] and told["calls"]["malloc"] == [1, 5]
        return
    growth = told["growths"][0]
    assert growth["figure"] == change.figure
    assert growth["line"]["line"] == planted.line_of(name, CHANGED)
    assert f"test_it.py:{growth['line']['line']}" in told["text"]
