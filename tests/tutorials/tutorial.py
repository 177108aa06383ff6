"""A tutorial as its reader follows it: files are written, changed, and commands run in one shell; all in order.

    ```python title="train.py"    this is the file train.py from here on
    ```diff title="train.py"      lines with a minus leave it, lines with a plus come in; the others say where
    ```sh                         is run in the shell, which stays in its folder from block to block
    ```text                       just after it: what it prints

In what is printed, "..." stands for any text within a line, and for any number of lines if it is alone on one; empty
lines at the end do not count. A block ends with status 0, unless the page shows a traceback or asks for the status.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

FENCE = re.compile(
    r'^ *```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?[^`\n]*\n(?P<text>.*?)^ *```$', re.MULTILINE | re.DOTALL
)
ANY = "..."
MARK = "\x1e"
TRACEBACK = "Traceback (most recent call last):"
# What differs from run to run, wherever it is.
VOLATILE = ((r"frugal-(\d+)-\d+\.", r"frugal-\1-..."), (r" in \d+\.\d+s\b", " in ...s"))


class Untrue(Exception):
    """What a page says is not so; the message shows how."""


@dataclasses.dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    text: str
    start: int  # of the text within the page
    line: int


@dataclasses.dataclass(frozen=True)
class Commands:
    """A block of commands, and what the page says that they print; None: nothing is said."""

    block: Block
    printed: Block | None

    @property
    def may_fail(self) -> bool:
        return "$?" in self.block.text or (self.printed is not None and TRACEBACK in self.printed.text)


@dataclasses.dataclass(frozen=True)
class File:
    """A file as it is from here on."""

    title: str
    text: str


def blocks(page: str) -> list[Block]:
    return [
        Block(found["language"], found["title"], found["text"], found.start("text"), page.count("\n", 0, found.start()))
        for found in FENCE.finditer(page)
    ]


def changed(text: str, diff: Block) -> str:
    """A file after a change that the page shows.

    Raises:
        Untrue: the file has no such place, or several.
    """
    lines = [line or " " for line in diff.text.splitlines()]
    before = [line[1:] for line in lines if line[0] in " -"]
    after = [line[1:] for line in lines if line[0] in " +"]
    old = text.splitlines()
    places = [at for at in range(len(old)) if old[at : at + len(before)] == before]
    if len(places) != 1:
        shown = "\n".join(before)
        raise Untrue(f"line {diff.line + 1}: {diff.title} has {len(places)} places like this:\n{shown}")
    new = [*old[: places[0]], *after, *old[places[0] + len(before) :]]
    return "".join(f"{line}\n" for line in new)


def steps(page: str) -> Iterator[File | Commands]:
    """What a reader does.

    Raises:
        Untrue: a change is of a file that is not there so.
    """
    files: dict[str, str] = {}
    found = blocks(page)
    for block, after in zip(found, [*found[1:], None], strict=True):
        if block.title is not None:
            is_change = block.language == "diff"
            files[block.title] = changed(files.get(block.title, ""), block) if is_change else block.text
            yield File(block.title, files[block.title])
        elif block.language == "sh":
            yield Commands(block, after if after is not None and after.language == "text" else None)


def script(page: str, staged: Path) -> str:
    """All of the page for a shell, which prints a mark and the status after each block of commands."""
    lines = [f"trap 'failed=$?' ERR; printf '{MARK}\\n'"]
    for number, step in enumerate(steps(page)):
        if isinstance(step, File):
            (staged / str(number)).write_text(step.text, encoding="utf-8")
            title = shlex.quote(step.title)
            lines.append(f'mkdir -p "$(dirname {title})" && cp {shlex.quote(str(staged / str(number)))} {title}')
        else:
            lines += ["failed=0", step.block.text, f"printf '{MARK}%d\\n' $failed"]
    return "\n".join(lines)


def run(page: str, folder: Path, under: Sequence[str] = ()) -> list[str]:
    """What each block of commands prints, in a folder of the reader's.

    Args:
        under: a command that starts the shell, such as frugal-alloc simulate.

    Raises:
        Untrue: one ends with another status than the page says.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with tempfile.TemporaryDirectory() as staged:
        done = subprocess.run(
            [*under, "bash", "-c", script(page, Path(staged))],
            cwd=folder,
            # As in a terminal, where what is printed comes in the order in which it is.
            env=os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=1800,
        )
    _, *pieces = done.stdout.split(f"{MARK}")
    commands = [step for step in steps(page) if isinstance(step, Commands)]
    printed, said = [], pieces[0].partition("\n")[2]
    for piece, step in zip(pieces[1:], commands, strict=False):
        status, _, following = piece.partition("\n")
        if status != "0" and not step.may_fail:
            raise Untrue(f"line {step.block.line + 1}: ended with status {status}:\n{step.block.text}\n{said}")
        printed.append(said.replace(str(folder), ANY))
        said = following
    if len(printed) != len(commands):
        raise Untrue(f"the shell ended at the block of line {commands[len(printed)].block.line + 1}:\n{said}")
    return printed


# ----- what is printed, beside what the page says -----


def is_like(line: str, text: str) -> bool:
    """Whether a line of the page, in which "..." stands for any text, can be read as this one."""
    return re.fullmatch(".*".join(map(re.escape, line.split(ANY))), text) is not None


def agrees(said: list[str], printed: list[str]) -> bool:
    """Whether lines of a page can be read as what was printed."""
    reached = {0}  # how many printed lines the lines of the page so far may stand for
    for line in said:
        if line.strip() == ANY:
            reached = set(range(min(reached), len(printed) + 1)) if reached else set()
        else:
            reached = {at + 1 for at in reached if at < len(printed) and is_like(line, printed[at])}
    return len(printed) in reached


def renewed(said: str, printed: str) -> str:
    """What a page has to say of what was printed: what it says if that is so, else anew, with lines that can stay."""
    old, new = said.splitlines(), printed.rstrip("\n").splitlines()
    if agrees(old, new):
        return said
    patterns = [line for line in old if ANY in line and line.strip() != ANY]
    return "".join(next((one for one in patterns if is_like(one, line)), masked(line)) + "\n" for line in new)


def masked(line: str) -> str:
    for volatile, shown in VOLATILE:
        line = re.sub(volatile, shown, line)
    return line


def with_outputs(page: str, printed: list[str]) -> str:
    """The page, each text below a block of commands as it was printed."""
    commands = [step for step in steps(page) if isinstance(step, Commands)]
    for step, text in reversed(list(zip(commands, printed, strict=True))):
        if step.printed is not None:
            start = step.printed.start
            page = page[:start] + renewed(step.printed.text, text) + page[start + len(step.printed.text) :]
    return page


def difference(page: str, true: str) -> str:
    both = page.splitlines(), true.splitlines()
    return "\n".join(difflib.unified_diff(*both, "as the page says", "as it was printed", lineterm="", n=3))
