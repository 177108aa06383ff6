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
        ([], "frugal-alloc: name a command (see frugal-alloc --help)"),
        (["rnu"], "there is no command rnu; did you mean run?"),
        (["fti"], "there is no command fti; did you mean fit?"),
        (["sim"], "there is no command sim; did you mean simulate?"),
        (["train"], "there is no command train; frugal-alloc --help lists them"),
        ([""], "there is no command"),
        (["--", "fit"], "frugal-alloc: unrecognized arguments: -- fit"),
        (["run"], "frugal-alloc run: name the script to run"),
        (["run", "-m"], "frugal-alloc run: -m needs the name of a module"),
        (["run", "--fast", "x.py"], "frugal-alloc run: unknown option --fast"),
        (["run", "--preload"], "frugal-alloc run: --preload needs a command"),
        (["preload", "x"], "unrecognized arguments: x"),
        (["install-hook", "x"], "unrecognized arguments: x"),
        (["simulate", "--", "true"], "required: --memory"),
        (["simulate", "--memory", "16GiB"], "name the command to run, after --"),
        (["simulate", "--memory", "lots", "--", "true"], "'lots' is not an amount of memory"),
        (["simulate", "--memory", "1GiB", "--gpus", "two", "--", "true"], "argument --gpus: 'two' is no number from 1"),
        (["simulate", "--memory", "1GiB", "--gpus", "0", "--", "true"], "--gpus: '0' is no number from 1 to 16"),
        (["simulate", "--memory", "1GiB", "--values", "gpu", "--", "true"], "there is no 'gpu'; did you mean cpu?"),
        (["simulate", "--memory", "1GiB", "--values", "all", "--", "true"], "there is no 'all'; choose from none, cpu"),
        (["simulate", "--memory", "4GB", "--", "true"], "--memory: '4GB' has two meanings, powers of 1000 and of 1024"),
        (["simulate", "--memory", "4", "GiB", "--", "true"], "write it without the space: --memory 4GiB"),
        (["simulate", "--gpu", "RTX", "4090", "--", "true"], 'write it in quotes: --gpu "RTX 4090"'),
        (["fit", "--memory", "1GiB", "--allocator", "frugl", "--", "true"], "no 'frugl'; did you mean frugal?"),
        (["simulate", "--gpu", "RTX 4095", "--", "true"], "RTX 4090"),
        (["simulate", "--memory", "8GiB", "--gpus", "2", "--unified", "--", "true"], "--unified goes with one GPU"),
        (["simulate", "--memory", "1GiB", "--node", "", "--", "true"], "--node"),
        (["simulate", "--memory", "1GiB", "--node", "x" * 65, "--", "true"], "--node"),
        (["simulate", "--memory", "1GiB", "--driver-costs", "/nowhere/costs", "--", "true"], "--driver-costs"),
        (["simulate", "--memory", "2GiB", "--", "FRUGAL_ALLOC_CONF=x", "python"], "a variable is set before the whole"),
        (["run", "absent.py"], "frugal-alloc run: cannot open absent.py: No such file or directory"),
        (["run", "--preload", "./absent"], "frugal-alloc run: ./absent cannot be run: No such file or directory"),
        (["report"], "required: FILE"),
        (["report", "x.json", "--compare"], "argument --compare: expected at least one argument"),
        (["replay"], "required: HISTORY"),
        (["replay", "mosaic", "--allocator", "native,rmm"], "no 'rmm'; choose from native, expandable, frugal, all"),
        (["replay", "mosaic", "--allocator", ""], "argument --allocator: there is no ''"),
        (["replay", "mosaic", "--memory", "12parsecs"], "--memory: '12parsecs' is not an amount of memory"),
        (["replay", "mosaic", "--gpu", "RTX 4095"], "RTX 4090"),
        (["replay", "mosaic", "--device", "rael"], "argument --device: there is no 'rael'; did you mean real?"),
        (["--hlep"], "frugal-alloc: unknown option --hlep; did you mean --help?"),
        (["run", "--preloda", "x"], "frugal-alloc run: unknown option --preloda; did you mean --preload?"),
        (["simulate", "--memroy", "1GiB", "--", "true"], "unknown option --memroy; did you mean --memory?"),
        (["fit", "--gpuu", "RTX 4090", "--", "true"], "frugal-alloc fit: unknown option --gpuu; did you mean --gpu?"),
        (["check", "--basline", "x.json", "--", "true"], "unknown option --basline; did you mean --baseline?"),
        (["top", "--interval", "2", "--onec"], "frugal-alloc top: unknown option --onec; did you mean --once?"),
        (["report", "--comapre", "a.json"], "frugal-alloc report: unknown option --comapre; did you mean --compare?"),
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


def options_of(name: str, command: Any) -> dict[str, str]:
    """The help of each option, on one line."""
    found = re.findall(r"^  (--[a-z-]+)(.*(?:\n   .*)*)", command(name, "--help").out, re.MULTILINE)
    return {option: " ".join(text.split()) for option, text in found}


def test_an_option_that_several_commands_have_means_the_same_in_each(command: Any) -> None:
    """But for its default, and for what a command adds."""
    told = {name: options_of(name, command) for name in ("fit", "check", "replay", "simulate")}
    for option, users in {
        "--gpu": ("fit", "check", "replay", "simulate"),
        "--memory": ("fit", "check", "replay", "simulate"),
        "--gpus": ("fit", "check", "simulate"),
        "--values": ("fit", "check", "simulate"),
        "--allocator": ("fit", "check", "replay"),
    }.items():
        said = {re.sub(r"^SIZE(\|min)?|;[^;]*200GiB.*| \(default.*", "", told[name][option]).strip() for name in users}
        assert len(said) == 1, (option, said)


@pytest.mark.parametrize("name", ["", *COMMANDS, "fit", "check", "top", "demo"])
def test_help_fits_80_columns(name: str, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert [line for line in command(*name.split(), "--help").out.splitlines() if len(line) > 80] == []


def test_help_lists_every_command_in_a_group(command: Any) -> None:
    listed = command("--help").out
    groups = re.findall(r"^([a-z ]+):\n    [a-z]", listed, re.MULTILINE | re.IGNORECASE)
    assert len(groups) >= 4
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
