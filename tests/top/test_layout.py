"""How the picture looks at each width."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.top import command, layout, picture
from rich.cells import cell_len
from rich.console import Console
from top_samples import GIB, gpu, of, process


def text(document: dict[str, Any]) -> list[str]:
    """As a pipe is given it."""
    printed = io.StringIO()
    command.print_once(document, printed)
    return printed.getvalue().splitlines()


def on_screen(document: dict[str, Any], width: int, height: int = 100) -> list[str]:
    """As a terminal of that size shows it, below the title."""
    console = Console(file=io.StringIO(), width=width, height=height, highlight=False)
    console.print(command._screen(console, document, 2.0))
    return [line.rstrip() for line in console.file.getvalue().splitlines()[2:]]  # type: ignore[attr-defined]


def test_pipes_have_all_columns_and_whole_commands() -> None:
    assert text(of(process(4711)))[-3:] == [
        " PID  GPU   ALLOCATED    RESERVED       WASTE        PEAK  OOM         AGE  COMMAND",
        "4711    0   30.00 GiB   40.00 GiB   10.00 GiB   35.00 GiB    0  1 h 02 min  project/train.py --lr 0.1",
        "WASTE: reserved, not allocated; PEAK: most allocated; OOM: out-of-memory errors",
    ]


def test_gpus_have_their_sums_above() -> None:
    lines = text(of(process(1), process(2, gpu(allocated_bytes=GIB, reserved_bytes=GIB, waste_bytes=0))))
    assert lines[:3] == [
        "GPU 0  NVIDIA H100: 20.00 GiB free of 80.00 GiB",
        "  allocated 31.00 GiB, reserved 41.00 GiB, waste 10.00 GiB, in 2 processes",
        "",
    ]


@pytest.mark.parametrize(
    ("width", "header", "explained"),
    [
        (
            80,
            "    PID  GPU   ALLOCATED    RESERVED        PEAK  OOM  COMMAND",
            ["PEAK: most allocated; OOM: out-of-memory errors"],
        ),
        (68, "    PID  GPU   ALLOCATED    RESERVED  OOM  COMMAND", ["OOM: out-of-memory errors"]),
        (60, "    PID  GPU   ALLOCATED    RESERVED  COMMAND", []),
        (44, "    PID  GPU   ALLOCATED  COMMAND", []),
    ],
)
def test_narrow_screens_drop_what_matters_least(width: int, header: str, explained: list[str]) -> None:
    """Errors are seen at the 80 columns that a terminal has by default."""
    shown = on_screen(of(process(4194304)), width)
    header_at = shown.index(header)
    assert shown[header_at + 1].startswith("4194304    0   30.00 GiB  ")
    assert "project/" in shown[header_at + 1]
    assert shown[header_at + 2 :] == explained


@pytest.mark.parametrize("width", [30, 60, 120])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    verdict = {"kind": "leak", "gpu": 0, "bytes_per_epoch": 1.0, "text": "train.py:1 leaks " + "\u9577" * 100}
    sick = process(2, gpu(out_of_memory_errors=3, last_out_of_memory="leak"), verdicts=[verdict], tracking=False)
    silent = {"pid": 3, "problem": "it does not answer"}
    document = {**of(process(1), sick, silent), "of_other_users": 2, "left_out": 1}
    assert max(map(cell_len, on_screen(document, width))) <= width


def test_verdicts_follow_their_process() -> None:
    verdicts = [
        {"kind": "leak", "gpu": 0, "bytes_per_epoch": 4.0, "text": "train.py:1 leaks 4 bytes with each epoch"},
        {"kind": "suspect", "gpu": 0, "bytes_per_epoch": 2.0, "text": "train.py:2 may leak 2 bytes with each epoch"},
    ]
    sick = process(7, gpu(out_of_memory_errors=2, last_out_of_memory="fragmentation"), verdicts=verdicts)
    assert list(layout.lines(of(sick)))[-4:-1] == [
        layout.Line("train.py:1 leaks 4 bytes with each epoch", "red", 4),
        layout.Line("train.py:2 may leak 2 bytes with each epoch", "yellow", 4),
        layout.Line("2 out-of-memory errors on GPU 0; the latest: fragmentation", "red", 4),
    ]


def test_simulated_gpus_of_two_processes_are_two() -> None:
    first, second = process(1, simulated=True), process(2, simulated=True)
    assert len(of(first, second)["gpus"]) == 2
    node = of(process(1, simulated=True, node="/n"), process(2, simulated=True, node="/n"))["gpus"]
    assert [one["processes"] for one in node] == [[1, 2]]


def test_one_gpu_under_two_numbers_is_one() -> None:
    (one,) = of(process(1, gpu(0, uuid="GPU-x")), process(2, gpu(3, uuid="GPU-x")))["gpus"]
    assert (one["gpu"], one["reserved_bytes"]) == (0, 80 * GIB)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["/usr/bin/python3", "/a/b/c/train.py", "x"], "c/train.py x"),
        (["/usr/bin/python3", "-m", "pytest"], "python3 -m pytest"),
        (["/opt/bin/server", "--port", "1"], "server --port 1"),
        (["train.py"], "train.py"),
        (["/usr/bin/python3.12", "/venv/bin/frugal-alloc", "run", "plain.py", "--lr", "1"], "plain.py --lr 1"),
        (["/usr/bin/python3", "-m", "frugal_alloc", "run", "/a/b/c/plain.py", "x"], "c/plain.py x"),
        (["python3", "-u", "-X", "dev", "-m", "frugal_alloc", "run", "--", "plain.py"], "plain.py"),
        (["/usr/bin/python3", "/venv/bin/frugal-alloc", "run", "torchrun", "train.py"], "torchrun train.py"),
        (["/usr/bin/python3", "/venv/bin/frugal-alloc", "run", "-m", "jobs.train", "x"], "python3 -m jobs.train x"),
        (["/usr/bin/python3", "/bin/frugal-alloc", "doctor"], "python3 /bin/frugal-alloc doctor"),
        (["/usr/bin/python3", "-m", "frugal_alloc"], "python3 -m frugal_alloc"),
        (["/usr/bin/python3", "-c", "frugal-alloc", "run", "x"], "python3 -c frugal-alloc run x"),
        ([], "(unknown)"),
    ],
)
def test_commands_are_shown_as_people_know_them(command: list[str], shown: str) -> None:
    assert picture.command_of(process(1, command=command)) == shown


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/python3", "/a/b/train.py", "x"], "train.py"),
        (["/usr/bin/python3", "/venv/bin/torchrun", "train.py"], "train.py"),
        (["/usr/bin/python3", "/venv/bin/frugal-alloc", "run", "/a/b/train", "x"], "train"),
        (["/usr/bin/python3", "-m", "jobs.train"], "python3"),
        (["/opt/bin/server", "--port", "1"], "server"),
        ([], ""),
    ],
)
def test_program_has_a_name_without_arguments(command: list[str], name: str) -> None:
    assert picture.program_of(process(1, command=command)) == name


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(0.9, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h 00 min"), (90_000, "1 d 01 h")],
)
def test_ages_are_short(seconds: float, age: str) -> None:
    assert layout.format_age(seconds) == age


def test_low_windows_say_what_is_below_them() -> None:
    shown = on_screen(of(*(process(pid) for pid in range(1, 30))), 100, height=10)
    assert len(shown) == 8
    assert shown[-1] == "27 more lines: the window is too low"


def test_page_shows_what_was_recorded() -> None:
    recorded = json.loads((Path(__file__).parent / "recorded.json").read_text())
    page = (Path(__file__).resolve().parents[2] / "docs" / "monitoring.md").read_text()
    assert "\n".join(text(recorded)) in page
