"""``frugal-alloc run`` runs a program as Python does, with the allocator on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import frugal_alloc
import pytest
from frugal_alloc._command import run_program
from frugal_alloc._common.messages import Refused

# Programs that need no GPU run through run_script and run_module: the command is that and frugal_alloc.enable().
_DRIVER = """
import sys
from frugal_alloc._command import run_program
from frugal_alloc._common.messages import Refused
is_module = sys.argv[1] == "-m"
run_program.check(sys.argv[2], is_module)
(run_program.run_module if is_module else run_program.run_script)(sys.argv[2], sys.argv[3:])
"""

RUN = ("simulate", "--memory", "2GiB", "--", sys.executable, "-m", "frugal_alloc", "run")


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _DRIVER, *arguments], cwd=folder, capture_output=True, text=True, timeout=600
    )


def python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=600)


def same(one: subprocess.CompletedProcess[str], other: subprocess.CompletedProcess[str]) -> bool:
    return (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)


_PROGRAMS = {
    "surroundings": """
import os, sys, neighbour
print(sys.argv, os.path.relpath(sys.path[0]), __name__, __file__, __spec__, __package__, __builtins__)
print(sys.modules["__main__"].__dict__ is globals(), sorted(set(globals()) - {"__annotations__"}))
""",
    "status": "import sys; sys.exit(7)",
    "message": "raise SystemExit('no such thing')",
    "no status": "raise SystemExit",
    "exception": """
def inner():
    raise ValueError("the program's own")
inner()
""",
    "chained exception": """
try:
    1 / 0
except ZeroDivisionError as error:
    raise KeyError("second") from error
""",
    "syntax error": "if True print('x')",
    "own excepthook": """
import sys
sys.excepthook = lambda kind, error, trace: print("hook:", kind.__name__, error)
raise ValueError("seen")
""",
    "at exit": """
import atexit, pickle
class Thing: pass
atexit.register(lambda: print(pickle.loads(pickle.dumps(Thing())).__class__))
""",
    "spawned child": """
import multiprocessing
def work(number): return number + 1
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [1, 2]))
""",
}


@pytest.mark.parametrize(
    ("name", "is_module"),
    [(name, False) for name in _PROGRAMS]
    # Whose tracebacks have a frame of runpy's.
    + [(name, True) for name in sorted(set(_PROGRAMS) - {"exception", "chained exception", "syntax error"})],
)
def test_program_behaves_as_under_python(name: str, is_module: bool, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    # Python's own run of a module has a spec and a loader that name the module by its place.
    code = _PROGRAMS[name].replace("__spec__", "__spec__.name") if is_module else _PROGRAMS[name]
    (folder / "program.py").write_text(code)
    ((tmp_path if is_module else folder) / "neighbour.py").write_text("")
    program = ["-m", "programs.program"] if is_module else ["programs/program.py"]
    arguments = [*program, "--flag", "-m", "a b"]

    ours = run(*([] if is_module else ["script"]), *arguments, folder=tmp_path)
    pythons = python(*arguments, folder=tmp_path)

    assert same(ours, pythons), (ours, pythons)


def test_folder_with_a_main_is_run(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import sys, part; print(part.NAME, sys.argv)")
    (tmp_path / "app" / "part.py").write_text("NAME = 'beside'")
    assert run("script", "app", "x", folder=tmp_path).stdout == "beside ['app', 'x']\n"


def test_interrupted_program_ends_by_the_signal(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    outcome = run("script", "script.py", folder=tmp_path)
    assert outcome.returncode == -signal.SIGINT
    assert "run_program.py" not in outcome.stderr


@pytest.mark.parametrize(
    ("program", "is_module", "expected"),
    [
        ("absent.py", False, "cannot open absent.py: No such file or directory"),
        ("empty_folder", False, "empty_folder is a folder without a __main__.py"),
        ("absent", True, "no module named absent"),
        ("/bin/true", False, "/bin/true is not a Python program; run it with frugal-alloc run --preload /bin/true"),
        ("script.sh", False, "script.sh is not a Python program"),
        (sys.executable, False, "leave out `python`: frugal-alloc run train.py"),
    ],
)
def test_program_that_is_not_there_is_refused_before_anything_is_loaded(
    program: str, is_module: bool, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty_folder").mkdir()
    (tmp_path / "script.sh").write_text("#!/bin/sh\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    with pytest.raises(Refused, match=expected):
        run_program.check(program, is_module)


def test_unchanged_script_trains_on_the_allocator(tmp_path: Path, program: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\n"
        "weights = torch.ones(1000, device='cuda', requires_grad=True)\n"
        "(weights * 2).sum().backward()\n"
        "import frugal_alloc\n"
        "print(frugal_alloc.is_enabled(), frugal_alloc.memory_stats()['allocated_bytes'] >= 8000, sys.argv[1:])\n"
        "sys.exit(5)\n"
    )
    outcome = program(*RUN, script, "--epochs", "3")
    assert outcome.out == "True True ['--epochs', '3']\n", outcome
    assert outcome.status == 5


@pytest.mark.usefixtures("no_gpu")
def test_machine_without_a_gpu_is_told_so_in_one_line(tmp_path: Path, program: Any) -> None:
    (tmp_path / "script.py").write_text("print('must not run')")
    outcome = program("run", tmp_path / "script.py")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("frugal-alloc run: the allocator cannot be used: ")
    assert outcome.err.count("\n") == 1


def test_script_is_found_as_a_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/usr/bin/env python3\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))
    assert run_program.find("tool") == str(tool)
    assert run_program.find("./tool") == "./tool"
    assert run_program.find("absent") == "absent"
    run_program.check(str(tool), False)


_PARENT = """
import os, subprocess, sys, torch, frugal_alloc

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 1
    def __getitem__(self, index):
        return int(frugal_alloc.is_enabled())

if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context="spawn")
    # Else it comes after what the children say, as the end of this process writes it.
    print("loader", [int(batch) for batch in loader], flush=True)
    code = "import torch, frugal_alloc; print('child', int(frugal_alloc.is_enabled()))"
    for switch in "1", "0":
        subprocess.run([sys.executable, "-c", code], env=os.environ | {"FRUGAL_ALLOC": switch})
    subprocess.run([sys.executable, "-c", "import sys; print('torch' in sys.modules)"])
"""


def test_children_however_started_have_the_allocator(tmp_path: Path, program: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text(_PARENT)
    outcome = program(*RUN, script)
    assert outcome.out == "loader [1]\nchild 1\nchild 0\nFalse\n", outcome


def test_workers_of_torchrun_have_the_allocator(tmp_path: Path, program: Any) -> None:
    script = tmp_path / "script.py"
    # One write a line: torchrun's workers share the pipe, and print() without a buffer writes each word by itself.
    said = "f\"{os.environ['RANK']} {frugal_alloc.is_enabled()}\\n\".encode()"
    script.write_text(f"import os, torch, frugal_alloc; os.write(1, {said})")
    outcome = program(*RUN, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script)
    assert sorted(outcome.out.splitlines()) == ["0 True", "1 True"], outcome


def test_a_user_who_turned_it_off_gets_the_plain_program(tmp_path: Path, program: Any) -> None:
    (tmp_path / "script.py").write_text("import os, sys; print(os.environ.get('PYTHONPATH'), 'torch' in sys.modules)")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    package = str(Path(frugal_alloc.__file__).parents[1])
    outcome = program("run", tmp_path / "script.py", env=environment | {"FRUGAL_ALLOC": "0", "PYTHONPATH": package})
    assert (outcome.status, outcome.out, outcome.err) == (0, f"{package} False\n", "")


# As pip writes it into the folder of commands.
_LAUNCHER = """import sys
from frugal_alloc._command.cli import main
if __name__ == '__main__':
    sys.exit(main())
"""
_KEEPING = """
import json, torch, frugal_alloc
kept = torch.zeros(1 << 20, device="cuda")
print(*{(frame["file"], frame["function"]) for frame in json.loads(frugal_alloc.report().to_json())["frames"]})
"""


def test_the_script_that_pip_has_made_to_call_us_by_is_in_no_stack(tmp_path: Path, program: Any) -> None:
    launcher, script = tmp_path / "bin" / "frugal-alloc", tmp_path / "script.py"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER)
    script.write_text(_KEEPING)
    outcome = program(*RUN[:-3], launcher, "run", script)
    assert outcome.out == f"('{script}', '<module>')\n", outcome
