"""Each tutorial is followed word by word: its files, its changes and its commands; what it says is printed is printed.

`pytest tests/tutorials --accept` writes what is printed into the pages; `git diff` then shows what has changed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tutorials"))
import tutorial  # noqa: E402

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def page_of(*lines: str) -> str:
    return "\n".join([*lines, ""])


@pytest.fixture
def follow(tmp_path: Path):
    """Follows a page in an empty folder; returns what each of its blocks of commands printed."""

    def carry_out(page: str) -> list[str]:
        for name in ("reader", "staged"):
            (tmp_path / name).mkdir()
        return tutorial.run(page, tmp_path / "reader", tmp_path / "staged")

    return carry_out


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_tutorial_is_true_word_by_word(path: Path, follow, request: pytest.FixtureRequest) -> None:
    page = path.read_text(encoding="utf-8")
    true = tutorial.with_outputs(page, follow(page))
    if request.config.getoption("--accept"):
        path.write_text(true, encoding="utf-8")
        return
    if true != page:
        pytest.fail(f"{tutorial.difference(page, true)}\nif that is as it should be: pytest tests/tutorials --accept")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_each_block_of_a_tutorial_is_one_that_is_followed(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    fences = [line for line in page.splitlines() if line.lstrip().startswith("```")]
    found = tutorial.blocks(page)
    assert len(fences) == 2 * len(found)
    assert [block for block in found if block.title is None and block.language not in ("sh", "text")] == []
    shown = [step.printed for step in tutorial.steps(page) if isinstance(step, tutorial.Commands)]
    assert [block for block in found if block.language == "text" and block not in shown] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_text_names_each_file_also_where_titles_of_blocks_are_not_shown(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    text = tutorial.FENCE.sub("", page)
    assert {block.title for block in tutorial.blocks(page) if block.title and f"`{block.title}`" not in text} == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
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
def test_a_command_that_fails_is_noticed(commands: str, follow) -> None:
    with pytest.raises(tutorial.Untrue):
        follow(page_of("```sh", commands, "```"))


def test_a_page_that_lies_is_told_with_the_difference(follow) -> None:
    page = page_of("```sh", "echo one; echo two", "```", "```text", "one", "three", "```")
    true = tutorial.with_outputs(page, follow(page))
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
        ("start\n...\nold", "start\nx\ny\nnew", "start\n...\nnew\n"),
        ("start\n...\nend\nold", "start\nx\ny\nend\nnew", "start\n...\nend\nnew\n"),
        ("old", "wrote frugal-0-123.html", "wrote frugal-0-...html\n"),
        ("old", "1 passed in 3.21s", "1 passed in ...s\n"),
    ],
)
def test_what_is_written_anew_keeps_its_dots(said: str, printed: str, true: str) -> None:
    assert tutorial.renewed(said, printed) == true
    assert tutorial.agrees(true.splitlines(), printed.splitlines())
