"""Each tutorial, and the page on C++, is followed word by word: its files, changes and commands print what it says.

`pytest tests/tutorials --accept` writes what is printed into the pages; `git diff` then shows what has changed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tutorials"))
import tutorial  # noqa: E402

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
CPP = ROOT / "docs" / "cpp.md"
each_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)


def page_of(*lines: str) -> str:
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("path", [*PAGES, CPP], ids=lambda path: path.name)
def test_a_page_is_true_word_by_word(path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if path == CPP and os.environ.get("FRUGAL_TEST_ALL") != "1":
        pytest.skip("compiles for half a minute: tools/test --all")
    if path == CPP and not (shutil.which("cmake") and shutil.which("c++")):
        pytest.skip("CMake or a C++ compiler is not installed")
    page = path.read_text(encoding="utf-8")
    true = tutorial.with_outputs(page, tutorial.run(page, tmp_path))
    if request.config.getoption("--accept"):
        path.write_text(true, encoding="utf-8")
        return
    if true != page:
        pytest.fail(f"{tutorial.difference(page, true)}\nif that is as it should be: pytest tests/tutorials --accept")


@each_page
def test_each_block_of_a_tutorial_is_one_that_is_followed(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    fences = [line for line in page.splitlines() if line.lstrip().startswith("```")]
    found = tutorial.blocks(page)
    assert len(fences) == 2 * len(found)
    assert [block for block in found if block.title is None and block.language not in ("sh", "text")] == []
    shown = [step.printed for step in tutorial.steps(page) if isinstance(step, tutorial.Commands)]
    assert [block for block in found if block.language == "text" and block not in shown] == []


@each_page
def test_the_text_names_each_file_also_where_titles_of_blocks_are_not_shown(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    text = tutorial.FENCE.sub("", page)
    assert {block.title for block in tutorial.blocks(page) if block.title and f"`{block.title}`" not in text} == set()


@each_page
def test_the_text_speaks_of_no_figure_that_is_not_in_a_block(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    shown = [block.text.replace("MiB", " MiB").replace("GiB", " GiB") for block in tutorial.blocks(page)]
    figures = set(re.findall(r"\b\d[\d,.]* [MG]iB", tutorial.FENCE.sub("", page)))
    assert {figure for figure in figures if not any(figure in text.replace("  ", " ") for text in shown)} == set()


@pytest.mark.parametrize("text", ["second = 1", "first = 1\nfirst = 1"])
def test_a_change_of_what_is_not_there_once_is_untrue(text: str) -> None:
    page = page_of('```python title="one.py"', text, "```", '```diff title="one.py"', "-first = 1", "```")
    with pytest.raises(tutorial.Untrue, match="places like this"):
        list(tutorial.steps(page))


@pytest.mark.parametrize("commands", ["false", "false\ntrue", "exit 3", "if"])
def test_a_command_that_fails_is_noticed(commands: str, tmp_path: Path) -> None:
    with pytest.raises(tutorial.Untrue):
        tutorial.run(page_of("```sh", commands, "```"), tmp_path)


def test_a_page_that_lies_is_told_with_the_difference(tmp_path: Path) -> None:
    page = page_of("```sh", "echo one; echo two", "```", "```text", "one", "three", "```")
    true = tutorial.with_outputs(page, tutorial.run(page, tmp_path))
    assert true == page.replace("three", "two")
    assert "-three\n+two" in tutorial.difference(page, true)


@pytest.mark.parametrize(
    "said, printed",
    [
        ("a 1 b", "a 1 b"),
        ("a ... b", "a 17 s b"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("a\n...\nd", "a\nd"),
        ("...\nd", "d\nd"),
    ],
)
def test_dots_stand_for_what_is_left_out(said: str, printed: str) -> None:
    assert tutorial.renewed(said, printed) == said


@pytest.mark.parametrize(
    "said, printed, true",
    [
        ("took ... s\nold", "took 4 s\nnew", "took ... s\nnew\n"),
        ("old", "wrote frugal-0-123.html", "wrote frugal-0-...html\n"),
        ("old", "1 passed in 3.21s", "1 passed in ...s\n"),
    ],
)
def test_what_is_written_anew_keeps_the_dots_of_its_lines(said: str, printed: str, true: str) -> None:
    assert tutorial.renewed(said, printed) == true
    assert tutorial.agrees(true.splitlines(), printed.splitlines())
