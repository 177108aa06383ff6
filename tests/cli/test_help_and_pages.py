"""What the documents say of the command ``frugal-alloc`` is what its help says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
# A span or a line of code that begins with the command, or has it behind an environment variable or a prompt.
MENTION = re.compile(r"\bfrugal-alloc ((?:[^`\n]|\\\n)+)")
# An argument of the program, which --find-batch gives values to.
RANGE = re.compile(r"=\d+\.\.\d+$")
# What follows is another program's, or a remark.
END = {"--", "|", ">", ">>", "#", "&&", "&"}


@cache
def help_of(*command: str) -> str:
    line = [sys.executable, "-m", "frugal_alloc", *command, "--help"]
    return subprocess.run(line, capture_output=True, text=True, check=True, timeout=120).stdout


def commands() -> list[str]:
    return re.findall(r"^    ([a-z][a-z-]+)(?: |$)", help_of(), re.MULTILINE)


def mentions() -> Iterator[tuple[str, str, list[str]]]:
    """Of each mention in a page: the page, the command and the options of ours that follow it."""
    for page in PAGES:
        for text in MENTION.findall(page.read_text(encoding="utf-8")):
            try:
                words = shlex.split(text.replace("\\\n", " "), comments=True)
            except ValueError:  # a span of prose with an apostrophe
                words = text.split()
            command = words[0].rstrip(").,") if words else ""
            if command not in commands():
                continue
            last = next((place for place, word in enumerate(words) if word in END), len(words))
            ours = [word for word in words[1:last] if word.startswith(("-", "[-")) and not RANGE.search(word)]
            yield page.name, command, [word.split("=")[0].strip("[]().,;:") for word in ours]


def test_every_command_of_the_help_stands_in_a_page() -> None:
    told = {command for _, command, _ in mentions()}
    assert sorted(set(commands()) - told) == []


@pytest.mark.parametrize("command", commands())
def test_every_option_that_a_page_names_is_in_the_help(command: str) -> None:
    known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", help_of(command)))
    wrong = {(page, option) for page, name, options in mentions() if name == command for option in options}
    if command == "run":  # what follows the script's name is the script's
        wrong = {(page, option) for page, option in wrong if option in ("-m", "--preload")}
    assert sorted((page, option) for page, option in wrong if option not in known) == []


@pytest.mark.parametrize("command", commands())
def test_every_option_of_the_help_stands_in_a_page(command: str) -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    options = set(re.findall(r"^  +(?:-\w, )?(--[\w-]+)", help_of(command), re.MULTILINE)) - {"--help"}
    assert sorted(option for option in options if not re.search(rf"{option}(?![\w-])", pages)) == []


def test_the_first_steps_of_the_help_are_commands_of_the_readme() -> None:
    """Whose commands tests/docs/test_commands.py runs."""
    steps = [line.split("#")[0].strip() for line in help_of().partition("first steps:\n")[2].splitlines()]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(steps) >= 3
    assert [step for step in steps if step not in readme] == []
