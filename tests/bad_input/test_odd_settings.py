"""Settings and arguments may be anything: each is taken, or refused in one line that says what is allowed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import frugal_alloc
import hostile
import pytest
import simulated_gpu
from frugal_alloc._switch.settings import to_text

VALUES = (
    *hostile.NUMBERS,
    *hostile.TEXTS,
    None,
    True,
    False,
    b"20GiB",
    10**5000,
    -(10**5000),
    1j,
    [],
    {},
    ("20GiB",),
    object(),
    "20GiB",
    "80%",
    "30s",
    "off",
    "on",
    "fast",
    "20GiB,track:off",
    "off\0,track:on",
    "\udcff",
    Path("/nowhere/at/all"),
    Path(os.fsdecode(b"/\xff\xfe")),
)
KEYS = ("memory_limit", "idle_release", "track", "publish", "report_dir", "suppressions")
TEXTS = 3000

# In a process of its own, since CUDA's libraries are replaced as one starts. What a folder or file is named is another
# test's: tracking would begin to use it.
ENABLING = """
import json, random, sys
sys.path.insert(0, sys.argv[1])
import frugal_alloc
import test_odd_settings
taken, refused = 0, []
for number in range(int(sys.argv[2])):
    chance = random.Random(f"enable {number}")
    keys = chance.sample(["memory_limit", "idle_release", "publish"], chance.choice([1, 1, 2]))
    before = frugal_alloc._native.load().settings()
    try:
        frugal_alloc.enable(**{key: chance.choice(test_odd_settings.VALUES) for key in keys})
        taken += 1
    except frugal_alloc.FrugalAllocError as error:
        refused.append(str(error))
        assert frugal_alloc._native.load().settings() == before, (number, before)
print("RESULTS" + json.dumps([taken, refused]))
"""


def simulated(**changes: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FRUGAL_")}
    return simulated_gpu.environment(2 << 30, backing="none", base=environment) | changes


def test_any_value_is_put_into_words_or_refused() -> None:
    taken = refused = 0
    for number in range(TEXTS * hostile.ROUNDS):
        chance = random.Random(f"settings {hostile.SEED} {number}")
        settings: dict[str, Any] = {key: chance.choice(VALUES) for key in chance.sample(KEYS, chance.randrange(1, 4))}
        case = f"settings, seed {hostile.SEED}, case {number}"
        try:
            text = to_text(**settings)
        except frugal_alloc.FrugalAllocError as error:
            refused += 1
            hostile.assert_one_line(str(error), case)
            continue
        taken += 1
        assert "\0" not in text, case
        # Each value is one setting, whatever is in it.
        assert text.count(",") == max(sum(value is not None for value in settings.values()) - 1, 0), case
    print(f"{taken} settings put into words, {refused} refused")
    assert min(taken, refused) > TEXTS // 10


def test_enable_takes_any_value_or_refuses_it_and_changes_nothing() -> None:
    line = [sys.executable, "-c", ENABLING, str(Path(__file__).parent), str(400 * hostile.ROUNDS)]
    done = subprocess.run(line, env=simulated(), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    taken, refused = json.loads(done.stdout.rpartition("RESULTS")[2])
    print(f"enable: {taken} taken, {len(refused)} refused")
    assert min(taken, len(refused)) > 10
    for message in refused:
        hostile.assert_one_line(message, "enable")


PROGRAM = [sys.executable, "-m", "frugal_alloc", "run", __file__]
DRIVER = [sys.executable, "-S", "-c", "import ctypes; ctypes.CDLL('libcuda.so.1'); print('it ran')"]


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (PROGRAM, "FRUGAL_ALLOC_CONF", "memory_limit:lots"),
        (PROGRAM, "FRUGAL_ALLOC_CONF", "a\nfrugal-alloc: all is well"),
        (PROGRAM, "FRUGAL_ALLOC_CONF", "\x1b[2J:\udcff\udcfe"),
        (PROGRAM, "FRUGAL_ALLOC_CONF", "x" * 50_000),
        (PROGRAM, "FRUGAL_ALLOC_CONF", "suppressions:/dev/zero"),
        (PROGRAM, "FRUGAL_ALLOC", "\x1b]0;yes\x07"),
        (DRIVER, "FRUGAL_SIM_CONTEXT", "lots\nand lots"),
        (DRIVER, "FRUGAL_SIM_KERNEL_NS", "9" * 50_000),
        (DRIVER, "FRUGAL_SIM_VMM", "\x1b[2J"),
        (DRIVER, "FRUGAL_SIM_FAULTS", "create@1=\udcff"),
        (DRIVER, "FRUGAL_SIM_FAULTS", "create@0=out_of_memory"),
        (DRIVER, "FRUGAL_SIM_VERBOSE", "2"),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, str) else "",
)
def test_the_environment_is_refused_in_one_line(line: list[str], name: str, value: str) -> None:
    done = subprocess.run(line, env=simulated(**{name: value}), capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (2, ""), done
    hostile.assert_one_line(done.stderr.removesuffix("\n"), name)


@pytest.mark.parametrize("libraries", ["/nowhere", "/dev/null", "a:b", "\n", "\x1b[2J"])
def test_a_folder_of_libraries_that_cannot_be_is_refused(
    libraries: str, command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRUGAL_SIM_LIBRARIES", libraries)
    command("simulate", "--memory", "1GiB", "--", "true").assert_refused(libraries)


def test_any_argument_is_taken_or_refused_in_one_line(command: Any, tmp_path: Path) -> None:
    """Words that are options, numbers, markup, or no text at all, anywhere on the command line."""
    options = ("--", "-", "-x", "-h=1", "--json", "--html", "--html=", "--compare", "--memory", "--gpu")
    values = ("min", "1e400GiB", "9" * 400 + "GiB", "-1", "0x10", "\u0661\u0662GiB", "nan", "%s%n", "@file", "=")
    words = [*hostile.TEXTS, *options, *values, "\udcff\udcfe"]
    # What no program can be given.
    words = [word.replace("\x00", "\x01").replace("\ud800", "\udc80") for word in words]
    commands = ("report", "replay", "simulate", "doctor", "preload", "install-hook", "remove-hook", "run", "")
    tried = 200 * hostile.ROUNDS
    for number in range(tried):
        chance = random.Random(f"arguments {hostile.SEED} {number}")
        line = [chance.choice(commands), *(chance.choice(words) for _ in range(chance.randrange(1, 4)))]
        # What would run something, or change this Python, is another test's.
        if {"-h", "-h=1"} & set(line) or (line[0] in ("run", "simulate") and "--" in line):
            continue
        outcome = command(*line)
        if outcome.status != 0:
            outcome.assert_refused(f"arguments, seed {hostile.SEED}, case {number}: {line!r:.300}")
    print(f"{tried} command lines")
