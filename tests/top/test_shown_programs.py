"""Real programs on the simulated GPU, as ``frugal-alloc top`` sees them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._command.top import picture
from frugal_alloc._report import headline
from frugal_alloc._tracking import materiality
from published import GIB, LEAKING, MIB, is_published, running

TRAINING = f"""{LEAKING}
tell(
    in_use=torch.cuda.memory_allocated(),
    held=torch.cuda.memory_reserved(),
    peak=torch.cuda.max_memory_allocated(),
    report=frugal_alloc.report().to_json(),
    stitches=frugal_alloc.memory_stats()["stitches"],
)
await_order()
"""


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What a program that leaks tells of itself; it goes on meanwhile."""
    with running(TRAINING, tmp_path_factory.mktemp("training")) as program:
        yield program.told()


def seen(pid: int) -> dict[str, Any] | None:
    return next((one for one in picture.take()["processes"] if one["pid"] == pid), None)


HOLDING = """
block = tensor({} * MIB)
tell()
await_order()
"""


def test_figures_are_the_programs_own(training: dict[str, Any]) -> None:
    process = seen(training["pid"])
    assert process is not None
    assert process["command"][1:] == [process["command"][1], "--its", "arguments"]
    assert process["command"][1].endswith("train.py")
    assert process["simulated"] and process["tracking"] and process["epochs"] == 12
    (gpu,) = process["gpus"]
    assert gpu["allocated_bytes"] == training["in_use"] == (30 + 12 * 4) * MIB
    assert gpu["reserved_bytes"] == training["held"]
    assert gpu["waste_bytes"] == training["held"] - training["in_use"]
    assert gpu["peak_allocated_bytes"] == training["peak"]
    assert gpu["stitches"] == training["stitches"]
    assert gpu["total_bytes"] == 4 * GIB
    assert gpu["out_of_memory_errors"] == 1
    assert gpu["last_out_of_memory"] == "too_big"


def test_leak_is_told_in_the_words_of_the_report(training: dict[str, Any]) -> None:
    (verdict,) = seen(training["pid"])["verdicts"]  # type: ignore[index]
    assert (verdict["kind"], verdict["bytes_per_epoch"]) == ("leak", 4 * MIB)
    (cause,) = materiality.grouped(json.loads(training["report"])["verdicts"])
    assert verdict["text"] == headline.sentence(cause)
    assert verdict["text"].endswith("train.py:8 leaks 4.00 MiB with each epoch")


def test_command_prints_one_document(training: dict[str, Any], command: Any) -> None:
    outcome = command("top", "--json")
    assert outcome.status == 0
    document = json.loads(outcome.out)
    assert (document["schema"], document["version"]) == ("frugal_alloc.top", 1)
    (process,) = [one for one in document["processes"] if one["pid"] == training["pid"]]
    assert process["gpus"][0]["allocated_bytes"] == training["in_use"]


def test_pipe_is_given_the_text_once(training: dict[str, Any], command: Any) -> None:
    outcome = command("top")
    assert outcome.status == 0
    row = next(line for line in outcome.out.splitlines() if line.split()[:1] == [str(training["pid"])])
    assert "78.00 MiB" in row and "train.py --its arguments" in row
    assert "train.py:8 leaks 4.00 MiB with each epoch" in outcome.out
    assert "1 out-of-memory error on GPU 0; the latest: too big" in outcome.out
    assert "\033" not in outcome.out


@pytest.mark.parametrize("is_module", [True, False], ids=["python -m frugal_alloc", "frugal-alloc"])
def test_run_is_not_shown_before_the_program(is_module: bool, tmp_path: Path, command: Any) -> None:
    script = tmp_path / "frugal-alloc"  # as pip writes it
    script.write_text("from frugal_alloc._command.cli import main\nmain()\n")
    run = [sys.executable, *(["-m", "frugal_alloc"] if is_module else [str(script)]), "run"]
    with running(HOLDING.format(1), tmp_path, starter=run) as program:
        pid = program.told()["pid"]
        row = next(line for line in command("top").out.splitlines() if line.split()[:1] == [str(pid)])
        assert row.endswith(f"  {tmp_path.name}/train.py --its arguments")
        assert seen(pid)["command"][-3:] == [str(tmp_path / "train.py"), "--its", "arguments"]  # type: ignore[index]
        program.order()
        assert program.status() == 0


def test_process_without_frugal_alloc_is_not_there_and_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
        assert seen(bystander.pid) is None
        assert "/proc/net/unix" in opened
        assert not [path for path in opened if f"/proc/{bystander.pid}" in path]
        bystander.communicate(b"\n")


def test_leak_that_ends_is_told_no_more_once_somebody_has_looked(tmp_path: Path) -> None:
    code = """
kept = []
def epoch(size):
    kept.append(tensor(size))
    frugal_alloc.epoch_end()
for _ in range(12):
    epoch(4 * MIB)
tell()
await_order()
kept.clear()
for _ in range(12):
    frugal_alloc.epoch_end()
tell()
await_order()
"""
    with running(code, tmp_path) as program:
        pid = program.told()["pid"]
        assert [verdict["kind"] for verdict in seen(pid)["verdicts"]] == ["leak"]  # type: ignore[index]
        program.order()
        program.told()
        assert seen(pid)["verdicts"] == []  # type: ignore[index]
        program.order()


def test_setting_publish_off_hides_a_process_until_it_is_turned_on(tmp_path: Path) -> None:
    on, off = (f"frugal_alloc.enable(publish={is_on})\ntell()\nawait_order()\n" for is_on in (True, False))
    with running(HOLDING.format(1) + on + off, tmp_path, FRUGAL_ALLOC_CONF="publish:off,track:off") as program:
        pid = program.told()["pid"]
        assert not is_published(pid)
        program.order()
        program.told()
        process = seen(pid)
        assert process is not None and not process["tracking"] and process["verdicts"] == []
        program.order()
        program.told()
        assert not is_published(pid)
        program.order()
        assert program.status() == 0
