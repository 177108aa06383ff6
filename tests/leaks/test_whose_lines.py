"""The line that is told is one of the user's own, whatever code of others and of nobody's lies in between."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from frugal_alloc._program import code_lines, users_code

HERE = Path(__file__).resolve().parent


def line_of(program: str, name: str) -> int:
    """The line of a program's text that is marked so."""
    (line,) = [number for number, text in enumerate(program.splitlines(), 1) if text.endswith(f"# line: {name}")]
    return line


# Compiled code.

COMPILED = (HERE / "compiled_lines.py").read_text()
# As if it were edited between two runs: the compiler loads what it has written in the first.
EDITED = COMPILED.replace("import json\n", "# One more line.\n# And one more.\nimport json\n", 1)


@pytest.fixture(scope="module")
def compiled(run_program: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the program and the edited program tell."""
    folder = tmp_path_factory.mktemp("compiled")
    found = []
    for text in (COMPILED, EDITED):
        (folder / "net.py").write_text(text)
        found.append(run_program(str(folder / "net.py"), TORCHINDUCTOR_CACHE_DIR=str(folder / "cache")))
    return found


@pytest.mark.parametrize("run", [0, 1], ids=["compiled", "loaded after an edit"])
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("evaluation", ["output"]),
        ("training", ["hidden", "output"]),
        ("library's", ["call"]),
    ],
)
def test_memory_of_users_lines_is_told_at_the_line_it_was_compiled_from(
    compiled: list[dict[str, Any]], run: int, case: str, expected: list[str]
) -> None:
    text = (COMPILED, EDITED)[run]
    lines = {f"net.py:{line_of(text, name)}" for name in expected}
    assert {told.split("/")[-1].split(" ")[0] for told in compiled[run][case]} == lines


def test_memory_of_a_compiled_backward_is_told_at_the_forwards_line(compiled: list[dict[str, Any]]) -> None:
    lines = [line_of(COMPILED, name) for name in ("hidden", "output")]
    told = [text for text in compiled[0]["backward"] if "in backward by autograd.Function CompiledFunction" in text]
    assert {int(text.split("net.py:")[1].split(" ")[0]) for text in told} == set(lines), compiled[0]["backward"]


@pytest.mark.parametrize("run", [0, 1])
def test_a_leak_of_users_lines_is_told_at_the_users_line(compiled: list[dict[str, Any]], run: int) -> None:
    line = line_of((COMPILED, EDITED)[run], "output")
    assert compiled[run]["verdict"] == [f"net.py:{line}", "return self.second(hidden) * 2  # line: output"]


def test_a_line_that_was_edited_away_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "net.py"
    file.write_text("a = 1\nb = 2\nb = 2\n")
    trace = f'  File "{file}", line 1, in forward\n    {{}}\n'
    traces = [trace.format(text) for text in ("a = 1", "gone = 1", "b = 2")] + [None]
    maps = {"generated.py": [(10, 20, 30, 40), tuple(traces)], "empty.py": [], "odd.py": 3}
    cache = type("PyCodeCache", (), {"linemaps": maps})
    monkeypatch.setitem(sys.modules, "torch._inductor.codecache", type("Module", (), {"PyCodeCache": cache}))
    assert users_code.frames_of_compiled("generated.py", 9) == []
    assert users_code.frames_of_compiled("generated.py", 15) == [(str(file), 1, "forward")]
    assert users_code.frames_of_compiled("generated.py", 20) == [], "no line reads so any more"
    assert users_code.frames_of_compiled("generated.py", 35) == [], "two lines read so"
    assert users_code.frames_of_compiled("generated.py", 45) == users_code.frames_of_compiled("empty.py", 1) == []
    assert users_code.frames_of_compiled("odd.py", 1) == users_code.frames_of_compiled("unknown.py", 1) == []


COUNTED = """
import json, sys
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters

if sys.argv[1] == "followed":
    import frugal_alloc
    frugal_alloc.enable()
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).cuda()
optimizer = torch.optim.Adam(model.parameters())
counter = CompileCounter()

@torch.compile(backend=counter)
def step(inputs):
    optimizer.zero_grad()
    model(inputs).sum().backward()
    optimizer.step()

for inputs in torch.utils.data.DataLoader(torch.rand(32, 8), batch_size=8):
    step(inputs.cuda())
counts = {name: sum(counters[name].values()) for name in ("graph_break", "recompiles", "unimplemented")}
print("RESULTS" + json.dumps([counter.frame_count, counter.op_count, counts]))
"""


def test_following_a_program_changes_nothing_that_is_compiled(run_program: Callable[..., Any]) -> None:
    assert run_program(COUNTED, "followed") == run_program(COUNTED, "alone")


# Everything else.


@pytest.fixture(scope="module")
def told(run_program: Callable[..., Any]) -> dict[str, Any]:
    # The program lies in a temporary folder itself.
    return run_program((HERE / "whose_lines.py").read_text(), memory="2GiB")


def mark(name: str) -> str:
    return f"program.py:{line_of((HERE / 'whose_lines.py').read_text(), name)}"


FUNCTION = "autograd.Function Scale" if sys.version_info >= (3, 11) else "autograd.Function"


@pytest.mark.parametrize(
    ("case", "said"),
    [
        # Code that is not the user's is told at the line that called it.
        ("generated module", f"/{mark('generated')} in "),
        ("wrapper", f"/{mark('wrapper')} in "),
        ("executed text", f"/{mark('executed')} in "),
        ("library's function", f"/{mark('forward')} in gradient_of, in backward by {FUNCTION}"),
        ("library's thread", "no line is known"),
        # A module from a temporary folder on the path is the user's, as cells of notebooks are.
        ("own module", "/own/mine.py:5 in made"),
        ("cell", "cell [3], line 3 in in_cell"),
        ("IPython's cell", "cell [7], line 1 in in_ipython"),
    ],
)
def test_memory_is_told_at_the_users_line_that_led_to_it(told: dict[str, Any], case: str, said: str) -> None:
    (text,) = told[case]
    assert said in text


def test_reports_and_errors_name_cells(told: dict[str, Any]) -> None:
    assert told["report's verdicts"] == [["cell [3]", 3, "return torch.ones(3000, device='cuda')"]]
    assert "leak cell [3], line 3 in in_cell" in told["report's text"]
    assert "at cell [9], line 3 in fill" in told["error"]
    assert "ipykernel" not in told["report's text"] + told["error"]


@pytest.mark.parametrize(
    ("file", "written"),
    [
        ("<ipython-input-12-0123456789ab>", "cell [12], line 4"),
        ("/tmp/ipython-input-12-345.py", "cell [12], line 4"),
        ("/tmp/marimo_77/__marimo__cell_Hbol_.py", "cell [Hbol], line 4"),
        ("cell [12]", "cell [12], line 4"),
        ("/srv/jobs/models/net.py", "models/net.py:4"),
        (os.path.abspath("net.py"), "net.py:4"),
        ("<stdin>", "<stdin>:4"),
    ],
)
def test_a_line_is_written_in_one_way(file: str, written: str) -> None:
    assert code_lines.written(file, 4) == written


def test_whose_a_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    cache = tmp_path / "work" / "cache"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "work")])
    # Not "-c", as a worker of pytest's is started: code without a file would be the user's then.
    monkeypatch.setattr(sys, "argv", ["train.py"])
    users, librarys = users_code.USERS, users_code.LIBRARYS
    nobodys, ours = users_code.NOBODYS, users_code.OURS
    owners = {
        str(tmp_path / "work" / "train.py"): users,
        str(tmp_path / "work" / "models" / "net.py"): users,
        str(tmp_path / "ipykernel_7" / "1.py"): users,
        str(cache / "ab" / "cab.py"): nobodys,
        str(tmp_path / "me_pyg" / "layer.py"): nobodys,
        str(tmp_path / "work" / ".venv" / "lib" / "site-packages" / "one.py"): librarys,
        os.__file__: librarys,
        users_code.__file__: ours,
        "<frozen importlib._bootstrap>": nobodys,
        "<string>": nobodys,
        "<eval_with_key>.3": nobodys,
        "<python-input-4>": users,
        "<stdin>": users,
        "/srv/jobs/train.py": users,
        "": nobodys,
    }
    assert {file: users_code.owner(file) for file in owners} == owners


def test_of_a_temporary_folder_on_the_path_only_the_files_in_it_are_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert users_code.is_users(str(tmp_path / "train.py"))
    assert not users_code.is_users(str(tmp_path / "me_pyg" / "layer.py"))


@pytest.mark.parametrize("is_filled", [True, False])
@pytest.mark.parametrize("place", ["", "elsewhere", "program", "work"])
def test_of_a_folder_on_the_path_what_pip_has_put_there_is_a_librarys(
    place: str, is_filled: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By `pip install --target`. What else is on PYTHONPATH is as likely as not the user's own project; the folders in
    which the program lies, and is started, are so in any case."""
    for name in ("elsewhere", "program", "work"):
        (tmp_path / name).mkdir()
    if is_filled:
        (tmp_path / place / "one-1.0.dist-info").mkdir(parents=True)
    # As `pip install -e` leaves it.
    (tmp_path / place / "mine.egg-info").mkdir()
    users_code._has_installed.cache_clear()
    monkeypatch.setattr(users_code, "_temporary_folders", lambda: iter(()))
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "program" / "train.py"), raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / place)])
    monkeypatch.chdir(tmp_path / "work")
    of_place = users_code.owner(str(tmp_path / place / "one" / "layers.py"))
    is_librarys = is_filled and place in ("", "elsewhere")
    assert of_place == (users_code.LIBRARYS if is_librarys else users_code.USERS)
    for folder in ("program", "work"):
        assert users_code.is_users(str(tmp_path / folder / "models" / "net.py"))
