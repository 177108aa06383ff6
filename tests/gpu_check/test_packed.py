"""The GPU check and its packed folder: what it is asked, and that it runs from end to end and writes into OUT alone."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from gpu_check_run import ROOT, Outcome, run
from hardware import __main__ as check

PACK = ROOT / "tools" / "gpu_check"
MOST_BYTES = 48 << 20


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "what"),
        (("everything",), "everything"),
        (("limits",), "--alone"),
        (("facts", "--add", "out"), "--add"),
        *((("facts", "--minutes", wrong), wrong) for wrong in ("none", "0", "nan", "-3")),
        (("facts", "--simulate", "lots"), "lots"),
        (("facts", "--fast"), "--fast"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        check.parse(list(arguments))
    assert named in Outcome(int(ended.value.code or 0), *capsys.readouterr()).assert_refused()


def test_commands_of_the_document_are_understood() -> None:
    text = (ROOT / "docs" / "gpu_check.md").read_text(encoding="utf-8")
    commands = re.findall(r"^DIR/run (.*?)(?: +#.*)?$", text, re.MULTILINE)
    assert len(commands) == 7
    for command in commands:
        check.parse(shlex.split(command))


def test_out_that_cannot_be_written_or_has_somebodys_files_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("mine")
    for out, said in (
        (tmp_path, "is not empty"),
        (tmp_path / "results.json", "cannot be written"),
        (tmp_path / "results.json" / "below", "cannot be written"),
    ):
        with pytest.raises(check.Refused, match=f"{re.escape(str(out))} {said}.*--out"):
            check._prepare(out)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("code", "ended"),
    [
        ("pass", "passed"),
        ("raise SystemExit(3)", "failed: status 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "failed: ended by SIGSEGV"),
        ("print('asleep', flush=True); import signal; signal.pause()", "failed: ended at its limit of 2 s"),
    ],
)
def test_step_ends_as_it_does_and_what_it_said_is_kept(code: str, ended: str, tmp_path: Path) -> None:
    step = check.Step("it", ("-c", code), 2 if "pause" in code else 60)
    assert check._carry_out(step, tmp_path, dict(os.environ)) == ended
    assert (tmp_path / "it.txt").read_text() == ("asleep\n" if "pause" in code else "")


# --- The packed folder.


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As it arrives at a stranger's: copied, with nothing of ours above it."""
    made = tmp_path_factory.mktemp("packed") / "kit"
    done = run(sys.executable, PACK, "pack", made)
    assert done.status == 0, done
    arrived = tmp_path_factory.mktemp("stranger") / "a kit"
    shutil.copytree(made, arrived)
    shutil.rmtree(made)
    return arrived


def start(packed: Path, folder: Path, *arguments: str) -> Outcome:
    """As `env -i` with what a login shell sets, and a Python with torch first on the path."""
    bare = {"HOME": str(folder / "home"), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "LANG": "C.UTF-8"}
    (folder / "home").mkdir(exist_ok=True)
    return run(packed / "run", *arguments, env=bare, cwd=folder)


def test_it_is_small_and_needs_no_checkout(packed: Path) -> None:
    files = [path for path in packed.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES
    assert not any("__pycache__" in path.parts for path in files)
    for name in ("run", "README.md", "packed.json", "bindings/frugal_alloc/_command/doctor/kernels/aliasing.cu"):
        assert (packed / name).is_file(), name
    assert len(list((packed / "bench" / "histories").glob("*.xz"))) == 4
    code = f"import sys; sys.path.insert(0, {str(packed / 'vendored')!r}); import pytest"
    assert run(sys.executable, "-I", "-S", "-c", code).status == 0


def _contents(folder: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*")}


def test_all_of_it_runs_on_the_simulated_gpu_and_writes_into_out_alone(packed: Path, tmp_path: Path) -> None:
    out, before = tmp_path / "out", _contents(packed)
    done = start(packed, tmp_path, "all", "--out", str(out))
    assert done.status == 0, done.out + done.err + "".join(path.read_text() for path in out.glob("*.txt"))
    assert _contents(packed) == before
    assert list((tmp_path / "home").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "out"]
    found = json.loads((out / "results.json").read_text())
    assert found["where"]["simulated"] is True and found["where"]["commit"]
    assert set(found["steps"].values()) == {"passed"}
    steps = {"doctor", "test_handles", "test_soak", "throughput", "histories", "test_other_libraries"}
    assert set(found["steps"]) >= steps
    assert "not shown here" in (out / "throughput.txt").read_text()
    assert "<testsuite" in (out / "test_handles.xml").read_text()


def test_python_without_torch_is_named(packed: Path, tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    done = run(packed / "run", "facts", env={"PATH": "/usr/bin:/bin", "PYTHON": str(bare)}, cwd=tmp_path)
    assert f"{bare}: no torch" in done.assert_refused()
    done = run(packed / "run", "facts", env={"PATH": "/usr/bin:/bin", "PYTHON": "/nowhere/python"}, cwd=tmp_path)
    assert "/nowhere/python" in done.assert_refused() and "not found" in done.err


def test_what_lies_in_the_working_directory_is_not_run(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "frugal_alloc").mkdir()
    (tmp_path / "frugal_alloc" / "__init__.py").write_text("raise SystemExit('the wrong one')")
    assert "not a number of minutes" in start(packed, tmp_path, "facts", "--minutes", "none").assert_refused()


def test_folder_with_files_is_not_packed_into(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = run(sys.executable, PACK, "pack", tmp_path)
    assert (done.status, "not empty" in done.err, os.listdir(tmp_path)) == (1, True, ["mine"])


def test_what_is_not_built_is_named_with_what_builds_it(tmp_path: Path) -> None:
    empty = {**os.environ, "FRUGAL_SIM_LIBRARIES": str(tmp_path)}
    done = run(sys.executable, PACK, "pack", tmp_path / "kit", env=empty)
    assert (done.status, "tools/setup" in done.err, (tmp_path / "kit").exists()) == (1, True, False)


def test_folder_that_would_be_too_large_is_refused_with_what_is_largest(tmp_path: Path) -> None:
    loader = SourceFileLoader("gpu_check_program", str(PACK))
    packing = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(packing)
    files = {"small.py": tmp_path / "small.py", "_lib/large.so": tmp_path / "large.so"}
    for path, size in zip(files.values(), (1000, MOST_BYTES), strict=True):
        path.touch()
        os.truncate(path, size)
    said = r"48\.0 MiB are more than 48; the largest: _lib/large\.so \(48\.0 MiB\)"
    with pytest.raises(packing.CannotPack, match=said):
        packing._check_size(files)
    assert packing._check_size({"small.py": files["small.py"]}) == 1000


def test_pack_refuses_other_arguments() -> None:
    run(sys.executable, PACK, "unpack").assert_refused()
