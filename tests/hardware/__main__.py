"""``python -m hardware PART``: what ``run`` in a packed folder starts. Each file of tests, and each program, is a
process of its own with a limit, so that a fault or a hang of one is one failure."""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import math
import os
import signal
import site
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import simulated_gpu
from frugal_alloc._command.doctor import driver, gpu, machine, probe
from frugal_alloc._common import whole_files
from frugal_alloc._common.arguments import Parser, refuse
from frugal_alloc._common.messages import Refused

from hardware import speeds

PASSED, FAILED, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 130
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)
#: The folder with tests/ and bench/.
ROOT = Path(__file__).resolve().parents[2]
_PROGRAM, _PYTEST_NOTHING_RAN, _OLDEST_PYTEST = "gpu_check", 5, 8
_NOT_REACHED, _UNKNOWN = "not reached: no time was left", "unknown: not all could be asked"
#: For its programs to start, and for the last step of one.
_AROUND_SECONDS = 120.0
_HISTORIES = ("gpt60", "frcnn60", "bert60", "resnet60")
#: Where programs leave something, which is to lie in OUT.
_CACHES = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "CUDA_CACHE_PATH")
_CACHES += ("CUPY_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")


class Step(NamedTuple):
    """A process of Python: what it is called in OUT, its arguments, and the most seconds that it may take."""

    name: str
    arguments: tuple[str, ...]
    seconds: float


def _tests(file: str, seconds: float, *more: str) -> Step:
    name = f"{Path(file).stem}{'-starving' if '-m' in more else ''}"
    options = ("-m", "pytest", "-q", "-rfEs", "--no-header", "-p", "no:cacheprovider", "--rootdir", str(ROOT))
    # The newer family of XML has no properties.
    options += ("-o", "junit_family=xunit1")
    return Step(name, (*options, f"--junitxml={name}.xml", *more, str(ROOT / "tests" / file)), seconds)


def _histories() -> Step:
    files = [str(ROOT / "bench" / "histories" / f"{name}.json.xz") for name in _HISTORIES]
    return Step("histories", ("-m", "hardware.histories", *files), 150)


_DOCTOR = Step("doctor", ("-m", "frugal_alloc", "doctor", "--gpu", "--json"), 150)
_FACTS = ("handles", "views", "remapping", "full_device")
#: About the simulated GPU, or other Pythons.
_LEFT_OUT = ("every_python", "segments", "unified_memory")
_BINDINGS = [f"--ignore={ROOT / 'tests' / 'bindings' / f'test_{name}.py'}" for name in _LEFT_OUT]
#: What is asked of each part, in order of value.
PARTS = {
    "facts": [_DOCTOR, *(_tests(f"hardware/test_{name}.py", 240) for name in _FACTS)],
    "tests": [
        _tests("hardware/test_soak.py", 360),
        _tests("hardware/test_sleeping.py", 360, "-k", "not sixty"),
        _tests("bindings", 1800, *_BINDINGS),
    ],
    "throughput": [Step("throughput", ("-m", "hardware.throughput", "--out", "."), 480)],
    "speed": [_histories(), _tests("hardware/test_other_libraries.py", 600)],
    "limits": [_tests("hardware/test_views.py", 150, "-m", "starves")],
    "switches": [_tests("bindings/test_switches.py", 600)],
    "nccl": [_tests("hardware/test_together.py", 240, "-k", "nccl")],
    "sleep": [_tests("hardware/test_sleeping.py", 180, "-k", "sixty")],
    "sharing": [_tests("hardware/test_together.py", 240, "-k", "eight")],
    "micro": [Step("pairs", ("-m", "hardware.pairs"), 180)],
}
_ALL = ("throughput", "facts", "tests", "speed")
_WITHOUT_PYTEST = ("throughput", "micro")
_WITHOUT_CUDA_BINDINGS = (*_WITHOUT_PYTEST, "speed", "switches", "nccl", "sharing")


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < 24 * 60:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number of minutes above 0")
    return minutes


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        _PROGRAM,
        description="Tests and measures what this machine's GPU and driver do, and whether frugal_alloc is safe on "
        "them. Uses the first visible GPU (CUDA_VISIBLE_DEVICES); without one the simulated GPU, which shows that the "
        "kit works.",
        epilog="Exit status: 0 all passed, 1 something failed, 2 it could not run. See docs/gpu_check.md.",
    )
    add = parser.add_argument
    add("what", choices=(*PARTS, "all"), help="which part")
    add("--minutes", type=_minutes, metavar="N", help="take no longer than this; throughput has 8 otherwise")
    add("--add", metavar="OUT1", type=Path, help="throughput adds to what it measured in a run into this folder")
    add("--out", metavar="OUT", type=Path, help="folder for results, new or empty (default gpu_check-DATE-TIME)")
    simulate = "use a simulated GPU of this memory although there may be a real one"
    add("--simulate", type=simulated_gpu.parse_size, metavar="SIZE", help=simulate)
    add("--alone", action="store_true", help="nobody else uses this GPU: its memory may be filled")
    options = parser.parse_args(arguments)
    if options.what == "limits" and not options.alone:
        parser.error("limits starves every process of this machine that maps memory: say --alone if none does")
    if options.add and options.what not in ("throughput", "all"):
        parser.error(f"--add is for throughput, and {options.what} has nothing to add to")
    return options


def _prepare(out: Path) -> Path:
    """Makes the folder, empty, and tries it. Raises Refused if it cannot be written, or has files of somebody's."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise Refused(f"{out} is not empty; name a new folder with --out")
        (out / "left").mkdir()
    except OSError as error:
        raise Refused(f"{out} cannot be written ({error.strerror}); name another folder with --out") from None
    return out.resolve()


def _check_installed(what: str) -> tuple[str, ...]:
    """Where the packed pytest is if it is needed, since this Python has none, or one that is too old.

    Raises:
        Refused: there is no pytest that works, or no cuda-bindings, and the part needs it.
    """
    packed: tuple[str, ...] = ()
    try:
        if what not in _WITHOUT_CUDA_BINDINGS:
            driver._cuda("driver")
        if what not in _WITHOUT_PYTEST:
            has_one = importlib.util.find_spec("pytest") is not None
            if not has_one or int(importlib.metadata.version("pytest").partition(".")[0]) < _OLDEST_PYTEST:
                packed = (str(ROOT / "vendored"),)
                sys.path[:0] = packed
            importlib.import_module("pytest")
    except driver.CannotTell as error:
        raise Refused(str(error)) from None
    except ImportError as error:
        raise Refused(f"pytest cannot be imported ({error}); pip install 'pytest>={_OLDEST_PYTEST}'") from None
    return packed


def _environment(found: dict[str, str], where: dict[str, Any], out: Path, alone: bool) -> dict[str, str]:
    paths = (found["PYTHONPATH"], str(ROOT / "tests"), str(ROOT))
    result = found | {"PYTHONPATH": os.pathsep.join(paths), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    # Where a torch that was installed with pip --user is found follows from HOME.
    result["PYTHONUSERBASE"] = found.get("PYTHONUSERBASE") or site.getuserbase()
    result |= {name: str(out / "left") for name in _CACHES} | {"PYTHONDONTWRITEBYTECODE": "1"}
    if where["simulated"]:
        return result | {"FRUGAL_TEST_ON_SIMULATED_GPU": "1"}
    return result | {"FRUGAL_TEST_GPU": "real" if alone else "shared"}


def _steps(options: argparse.Namespace, simulated: bool) -> list[Step]:
    steps = [step for part in (_ALL if options.what == "all" else (options.what,)) for step in PARTS[part]]
    # On the simulated GPU tools/test runs the others.
    return [
        _tests("bindings/test_settings.py", 600) if simulated and step.name == "bindings" else step for step in steps
    ]


def _throughput(step: Step, options: argparse.Namespace, left: float, commit: str) -> Step:
    """With its own time, in which it comes to an end, and what it adds to."""
    most = 60 * options.minutes if options.minutes and options.what == "throughput" else step.seconds
    minutes = ("--minutes", str(min(most, left) / 60), "--commit", commit)
    earlier = ("--add", str(options.add.resolve())) if options.add else ()
    return Step(step.name, (*step.arguments, *minutes, *earlier), min(most, left) + _AROUND_SECONDS)


def _carry_out(step: Step, out: Path, environment: dict[str, str], left: float = math.inf) -> str:
    """How it ended: "passed", or what is wrong. What it printed is in OUT/NAME.txt.

    Args:
        left: seconds that --minutes leaves it.
    """
    if left <= 1:
        return _NOT_REACHED
    status = None
    with open(out / f"{step.name}.txt", "w+", errors="replace") as output:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        dies_with_us = functools.partial(probe.end_with_parent, os.getpid())
        options = {"env": environment, "cwd": out, "start_new_session": True, "preexec_fn": dies_with_us}
        child = subprocess.Popen([sys.executable, *step.arguments], **options, **streams)
        try:
            status = child.wait(min(step.seconds, left))
        except subprocess.TimeoutExpired:
            pass
        finally:
            is_over = gpu.end_group(child)
        output.seek(0)
        is_unknown = "not found out: " in output.read()
    if status is None:
        limit = f"failed: ended at its limit of {step.seconds:.0f} s"
        return f"failed: {gpu.HELD}" if not is_over else limit if step.seconds <= left else _NOT_REACHED
    if status < 0:
        return f"failed: ended by {signal.Signals(-status).name}"
    if status == COULD_NOT_RUN and step.name in ("doctor", "throughput"):
        return _UNKNOWN
    if status in (PASSED, _PYTEST_NOTHING_RAN):
        return _UNKNOWN if is_unknown else "passed"
    return f"failed: status {status}"


def _say(line: str) -> None:
    """Whoever reads may have gone, which stops nothing: results.json has it all."""
    try:
        print(line, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt(*_: object) -> None:
    # One is enough: a shell and the terminal both send theirs.
    for number in _ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _check(options: argparse.Namespace) -> int:
    found, where = machine.find(options.simulate)
    packed = ROOT / "packed.json"
    commit = json.loads(packed.read_text())["commit"] if packed.exists() else ""
    if options.add:
        speeds.earlier_cells(options.add, speeds.measured_on(where, commit))
    found["PYTHONPATH"] = os.pathsep.join((*_check_installed(options.what), found["PYTHONPATH"]))
    out = _prepare(options.out or Path(time.strftime("gpu_check-%Y%m%d-%H%M%S")))
    results: dict[str, Any] = {"where": where | {"commit": commit}, "steps": {}}
    environment = _environment(found, where, out, options.alone)
    end = time.monotonic() + (60 * options.minutes if options.minutes else math.inf)
    shown = "a SIMULATED GPU: nothing here is measured" if where["simulated"] else where["gpu"]
    _say(f"on {shown}; results go to {out}")
    for step in _steps(options, where["simulated"]):
        left = end - time.monotonic()
        if step.name == "throughput" and left > 1:
            step = _throughput(step, options, left, commit)
            left = step.seconds
        results["steps"][step.name] = _carry_out(step, out, environment, left)
        whole_files.write(str(out / "results.json"), json.dumps(results, indent=1).encode())
        _say(f"{step.name:20}{results['steps'][step.name]}")
    if any(ended.startswith("failed") for ended in results["steps"].values()):
        return FAILED
    return PASSED if all(ended == "passed" for ended in results["steps"].values()) else COULD_NOT_RUN


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    for number in _ENDINGS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _interrupt)
    try:
        return _check(options)
    except Refused as error:
        return refuse(_PROGRAM, error)
    except OSError as error:
        return refuse(_PROGRAM, f"results cannot be written ({error}); make room, or name another folder with --out")
    except KeyboardInterrupt:
        _say("interrupted: what was found until then is above")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
