"""Wrong arguments get one line that helps, and status 2."""

from __future__ import annotations

import re
from typing import Any

import pytest
from frugal_alloc import __version__

COMMANDS = ("run", "simulate", "doctor", "replay", "report", "preload", "install-hook", "remove-hook")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "frugal-alloc: the following arguments are required: COMMAND"),
        (["rnu"], "there is no command rnu; did you mean run?"),
        (["train"], "invalid choice: 'train'"),
        (["run"], "frugal-alloc run: name the script to run"),
        (["run", "-m"], "frugal-alloc run: -m needs the name of a module"),
        (["run", "--fast", "x.py"], "frugal-alloc run: unknown option --fast"),
        (["run", "--"], "frugal-alloc run: name the script to run"),
        (["run", "--preload"], "frugal-alloc run: --preload needs a command"),
        (["run", "--preload", "--"], "frugal-alloc run: --preload needs a command"),
        (["preload", "x"], "unrecognized arguments: x"),
        (["install-hook", "x"], "unrecognized arguments: x"),
        (["simulate", "--", "true"], "required: --memory"),
        (["simulate", "--memory", "16GiB"], "name the command to run, after --"),
        (["simulate", "--memory", "lots", "--", "true"], "'lots' is not an amount of memory"),
        (["simulate", "--memory", "0", "--", "true"], "'0' is not an amount of memory"),
        (["simulate", "--memory", "16GiB", "--gpus", "two", "--", "true"], "argument --gpus: invalid int value: 'two'"),
        (["simulate", "--memory", "16GiB", "--gpus", "0", "--", "true"], "0 simulated GPUs are not possible"),
        (
            ["simulate", "--memory", "16GiB", "--values", "gpu", "--", "true"],
            "--values: invalid choice: 'gpu'",
        ),
        (["simulate", "--gpu", "RTX 4095", "--", "true"], "RTX 4090"),
        (["simulate", "--memory", "8GiB", "--gpus", "2", "--unified", "--", "true"], "--unified goes with one GPU"),
        (["simulate", "--memory", "1GiB", "--node", "", "--", "true"], "--node"),
        (["simulate", "--memory", "1GiB", "--node", "../other", "--", "true"], "--node"),
        (["simulate", "--memory", "1GiB", "--node", "a b", "--", "true"], "--node"),
        (["simulate", "--memory", "1GiB", "--node", "x" * 65, "--", "true"], "--node"),
        (["simulate", "--memory", "1GiB", "--driver-costs", "/nowhere/costs", "--", "true"], "--driver-costs"),
        (["simulate", "--memory", "2GiB", "--", "FRUGAL_ALLOC_CONF=x", "python"], "a variable is set before the whole"),
        (["run", "absent.py"], "frugal-alloc run: cannot open absent.py: No such file or directory"),
        (["run", "--preload", "./absent"], "frugal-alloc run: ./absent cannot be run: No such file or directory"),
        (["report"], "required: FILE"),
        (["report", "x.json", "--compare"], "argument --compare: expected at least one argument"),
        (["replay"], "required: HISTORY"),
        (["replay", "mosaic", "--allocator", "native,rmm"], "unknown allocator 'rmm'; choose from frugal, native"),
        (["replay", "mosaic", "--allocator", ""], "unknown allocator ''"),
        (["replay", "mosaic", "--capacity", "12parsecs"], "--capacity: '12parsecs' is not an amount of memory"),
        (["--hlep"], "frugal-alloc: unknown option --hlep; did you mean --help?"),
        (["run", "--preloda", "x"], "frugal-alloc run: unknown option --preloda; did you mean --preload?"),
        (["simulate", "--memroy", "1GiB", "--", "true"], "unknown option --memroy; did you mean --memory?"),
        (["simulate", "--mem", "1GiB", "--gpuss=2", "--", "true"], "unknown option --gpuss; did you mean --gpus?"),
        (["fit", "--gpuu", "RTX 4090", "--", "true"], "frugal-alloc fit: unknown option --gpuu; did you mean --gpu?"),
        (["check", "--basline", "x.json", "--", "true"], "unknown option --basline; did you mean --baseline?"),
        (["top", "--onec"], "frugal-alloc top: unknown option --onec; did you mean --once?"),
        (["top", "--interval", "2", "--onec"], "frugal-alloc top: unknown option --onec; did you mean --once?"),
        (["report", "--comapre", "a.json"], "frugal-alloc report: unknown option --comapre; did you mean --compare?"),
        (["replay", "mosaic", "--jsn"], "frugal-alloc replay: unknown option --jsn; did you mean --json?"),
        (["doctor", "--jsn"], "frugal-alloc doctor: unknown option --jsn; did you mean --json?"),
        (["doctor", "--purple"], "frugal-alloc doctor: unknown option --purple (see frugal-alloc doctor --help)"),
        (["doctor", "-x"], "frugal-alloc doctor: unknown option -x (see"),
        (["doctor", "please"], "unrecognized arguments: please"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_arguments_get_one_line_and_status_2(arguments: list[str], expected: str, command: Any) -> None:
    outcome = command(*arguments)
    outcome.assert_refused(" ".join(arguments))
    assert expected in outcome.err


@pytest.mark.parametrize("before", [[], ["--"]], ids=["", "--"])
@pytest.mark.parametrize(
    "options", [["--memory", "1GiB"], ["--mem=1GiB"], ["--gpus", "1", "--memory=1GiB"]], ids=" ".join
)
def test_options_of_a_command_that_is_started_are_its_own(options: list[str], before: list[str], program: Any) -> None:
    outcome = program("simulate", *options, *before, "echo", "--memroy", "-x", "--", "--help")
    assert (outcome.status, outcome.out) == (0, "--memroy -x -- --help\n")


def test_version_is_the_packages(command: Any) -> None:
    assert command("--version").out == f"frugal-alloc {__version__}\n"


@pytest.mark.parametrize("arguments", [[], *([name] for name in COMMANDS)], ids=" ".join)
def test_help_names_the_command_and_succeeds(arguments: list[str], command: Any) -> None:
    outcome = command(*arguments, "--help")
    assert outcome.status == 0
    assert outcome.out.startswith("usage: " + " ".join(["frugal-alloc", *arguments]))
    assert outcome.err == ""


def test_help_lists_every_command(command: Any) -> None:
    listed = command("--help").out
    assert [name for name in COMMANDS if not re.search(rf"^    {name}\s", listed, re.MULTILINE)] == []


@pytest.mark.parametrize("platform", ["win32", "darwin"])
@pytest.mark.parametrize("arguments", [["doctor"], ["run", "x.py"], ["simulate", "--memory", "1GiB", "--", "true"]])
def test_other_platforms_are_refused_in_one_line(
    platform: str, arguments: list[str], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    outcome = command(*arguments)
    outcome.assert_refused(platform)
    assert outcome.err.startswith(f"frugal-alloc {arguments[0]}: frugal_alloc works on Linux, this is {platform}")
