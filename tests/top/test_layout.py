"""How the picture looks at each width."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.top import command, layout, picture
from frugal_alloc._command.top import view as view_module
from frugal_alloc._command.top.view import View
from rich.cells import cell_len
from rich.console import Console
from top_samples import GIB, gpu, of, process


def text(document: dict[str, Any]) -> list[str]:
    """As a pipe is given it."""
    printed = io.StringIO()
    command.print_once(document, printed)
    return printed.getvalue().splitlines()


def on_screen(document: dict[str, Any], width: int, height: int = 100, view: View | None = None) -> list[str]:
    """As a terminal of that size shows it, below the title."""
    console = Console(file=io.StringIO(), width=width, height=height, highlight=False)
    console.print(command._screen(console, document, 2.0, view or View()))
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


def test_low_windows_are_scrolled_and_say_what_is_beyond_them() -> None:
    document, view = of(*(process(pid) for pid in range(1, 30))), View()
    shown = on_screen(document, 100, height=10, view=view)
    assert len(shown) == 8
    assert shown[-1] == "26 more lines below, 0 above"
    assert not view.press(b"\x1b[B\x1b[B\x1b[6~\x1b[A", height=10)
    assert on_screen(document, 100, height=10, view=view)[-1] == "20 more lines below, 6 above"
    view.press(b"\x1b[6~" * 20, height=10)
    last = on_screen(document, 100, height=10, view=view)
    assert last[-1] == "0 more lines below, 26 above"
    assert last[-3].split()[0] == "29"
    # What is then shown fits the window.
    assert on_screen(of(process(7)), 100, view=view)[0].startswith("GPU 0") and view.first == 0


def test_low_windows_show_processes_of_many_gpus() -> None:
    shown = on_screen(of(*(process(pid, gpu(pid)) for pid in range(5))), 60, height=20)
    assert [row.split()[0] for row in shown[7:12]] == list("01234")


def test_long_commands_lose_their_middle() -> None:
    command = ["/usr/bin/python3", "/a/project/train.py", "--model", "resnet152", "--dataset", "x" * 80, "--seed", "17"]
    row = next(row for row in on_screen(of(process(1, command=command)), 90) if "project" in row)
    assert "project/train" in row and "…" in row and row.endswith("--seed 17") and len(row) == 90


def pids(view: View) -> list[int]:
    small = process(3, gpu(1, reserved_bytes=GIB))
    document = of(process(os.getpid(), gpu(0), gpu(1)), small, process(2, gpu(0, reserved_bytes=90 * GIB)))
    return [process["pid"] for process in view.of(document)["processes"]]


def test_processes_are_sorted_and_filtered_by_options_and_keys() -> None:
    own = os.getpid()
    assert pids(View()) == sorted([2, 3, own])
    assert pids(View(sort="memory")) == [2, own, 3]
    assert pids(View(gpu=1, sort="memory")) == [own, 3]
    assert pids(View(pid=3)) == [3]
    view = View(sort="memory")
    for keys, shown in ((b"g", [2, own, 3]), (b"1", [own, 3]), (b"m", [own, 3]), (b"a", [2, own, 3])):
        assert not view.press(keys, 24)
        assert pids(view) == shown
    assert view.press(b"pq", 24)


def test_processes_of_one_user_are_shown_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "_owner", {2: 1000, 3: 1001}.get)
    assert pids(View(user=1001)) == [3]


def test_sums_are_of_the_gpu_that_is_shown() -> None:
    document = View(gpu=1).of(of(process(1, gpu(0), gpu(1)), process(2, gpu(0))))
    assert [(row["gpu"], row["processes"]) for row in document["gpus"]] == [(1, [1])]


def test_page_shows_what_was_recorded() -> None:
    recorded = json.loads((Path(__file__).parent / "recorded.json").read_text())
    page = (Path(__file__).resolve().parents[2] / "docs" / "monitoring.md").read_text()
    assert "\n".join(text(recorded)) in page
