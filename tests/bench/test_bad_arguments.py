"""What the benches' commands cannot do is said in one line, with status 2, before anything is measured."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import compare, left_over
from bench.generators import __main__ as generators
from bench.recordings import __main__ as recordings

Command = Callable[[list[str]], int]
# By the name that begins what it says.
COMMANDS: dict[str, Command] = {
    "compare": compare.main,
    "left_over": left_over.main,
    "bench.generators": generators.main,
    "bench.recordings": recordings.main,
}
PLAY_THE_POLICY = ("compare", "left_over")


@pytest.fixture
def commands(program: Path) -> dict[str, Command]:
    """Those that play the policy with the program that was just built."""

    def with_program(main: Command, arguments: list[str]) -> int:
        return main(["--program", str(program), *arguments])

    played = {name: functools.partial(with_program, COMMANDS[name]) for name in PLAY_THE_POLICY}
    return COMMANDS | played


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("compare", "--scale-to much", "'much' is not an amount of memory; write it like 16GiB"),
        ("compare", "--scale-to 0", "'0' is not an amount of memory"),
        ("compare", "--only gpt6", "'gpt6' is not one of bert60, "),
        ("compare", "--option homes", "'homes' is not a name, '=' and a number"),
        ("compare", "--option round=1", "--option: no option is named 'round'; there are "),
        ("compare", "--choices round", "--choices: no option is named 'round'; there are "),
        ("compare", "--json /nonexistent/figures.json", "/nonexistent is not a folder"),
        ("compare", "--only mosaic --also /nonexistent.json", "/nonexistent.json"),
        ("compare", "gpt60", "unrecognized arguments: gpt60"),
        ("left_over", "--seeds 5-3", "'5-3' is not from 1 to 100000 seeds"),
        ("left_over", "--seeds many", "a seed is a number from 0 on, not 'many'"),
        ("left_over", "--only -1", "a seed is a number from 0 on, not '-1'"),
        ("left_over", "--only 1 --seeds 1-2", "not allowed with argument"),
        ("bench.generators", "kvserver", "there is no 'kvserver'; did you mean kv_server?"),
        ("bench.generators", "kv_server --seed x", "--seed"),
        ("bench.generators", "kv_server --scale 0", "the scale must be above 0"),
        ("bench.generators", "kv_server --scale nan", "the scale must be above 0"),
        ("bench.generators", "kv_server --scale 0.1 --out /nonexistent/kv.json", "/nonexistent/kv.json cannot be"),
        ("bench.recordings", "gpt6", "no recording is named 'gpt6'; there are bert60, "),
        ("bench.recordings", "gpt60 --folder /no/such/folder", "--folder: there is no folder /no/such/folder"),
        ("bench.recordings", "--seed one", "argument --seed: invalid int value: 'one'"),
    ],
)
def test_bad_arguments_get_one_line_and_status_2(
    commands: dict[str, Command], name: str, arguments: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        sys.exit(commands[name](arguments.split()))
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out) == (2, "")
    assert captured.err.startswith(f"{name}: ")
    assert reason in captured.err
    assert captured.err.count("\n") == 1
