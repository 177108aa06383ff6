"""What the benches' commands cannot do is said in one line, with status 2, before anything is measured."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench.generators import __main__ as generators
from bench.recordings import __main__ as recordings

# By the module's name.
COMMANDS = {"bench": bench.main, "bench.generators": generators.main, "bench.recordings": recordings.main}


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("bench compare", "--scale-to much", "'much' is not an amount of memory; write it like 16GiB"),
        ("bench compare", "--scale-to 0", "'0' is not an amount of memory"),
        ("bench compare", "--only gpt6", "'gpt6' is not one of bert60, "),
        ("bench compare", "--option homes", "'homes' is not a name, '=' and a number"),
        ("bench compare", "--option round=1", "--option: no option is named 'round'; there are "),
        ("bench compare", "--choices round", "--choices: no option is named 'round'; there are "),
        ("bench compare", "--json /nonexistent/figures.json", "/nonexistent is not a folder"),
        ("bench compare", "--only mosaic --also /nonexistent.json", "/nonexistent.json"),
        ("bench", "compare gpt60", "unrecognized arguments: gpt60"),
        ("bench left_over", "--seeds 5-3", "'5-3' is not from 1 to 100000 seeds"),
        ("bench left_over", "--seeds many", "a seed is a number from 0 on, not 'many'"),
        ("bench left_over", "--only -1", "a seed is a number from 0 on, not '-1'"),
        ("bench left_over", "--only 1 --seeds 1-2", "not allowed with argument"),
        ("bench compare", "--csv /nonexistent", "/nonexistent is not a folder"),
        ("bench watching", "--only gpt60", "'gpt60' is not one of gpt2, "),
        ("bench", "compared", "there is no 'compared'; did you mean compare?"),
        ("bench", "", "the following arguments are required: COMMAND"),
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
    program: Path, name: str, arguments: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module, *command = name.split()
    played = ["--program", str(program)] if module == "bench" else []
    with pytest.raises(SystemExit) as ended:
        sys.exit(COMMANDS[module]([*played, *command, *arguments.split()]))
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out) == (2, "")
    assert captured.err.startswith(f"{name}: ")
    assert reason in captured.err
    assert captured.err.count("\n") == 1
