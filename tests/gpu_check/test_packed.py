"""The packed folder, where there is no checkout beside it: it runs from end to end and writes into OUT alone."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from gpu_check_run import ROOT, Outcome, results, run
from hardware import kit

PACK = ROOT / "tools" / "gpu_check"
MOST_BYTES = 48 << 20
SANDBOX = Path(__file__).with_name("write_only_in.py")
NO_LANDLOCK = 77


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


def start(packed: Path, folder: Path, *arguments: str, prefix: tuple[str | Path, ...] = ()) -> Outcome:
    """As `env -i` with what a login shell sets, and a Python with torch first on the path."""
    bare = {"HOME": str(folder / "home"), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "LANG": "C.UTF-8"}
    (folder / "home").mkdir(exist_ok=True)
    return run(*prefix, packed / "run", *arguments, env=bare, cwd=folder)


def test_it_is_small_and_needs_no_checkout(packed: Path) -> None:
    files = [path for path in packed.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES
    assert not any("__pycache__" in path.parts for path in files)
    for name in ("run", "README.md", "packed.json", "frugal_alloc/_command/doctor/kernels/aliasing.cu"):
        assert (packed / name).is_file(), name
    assert len(list((packed / "bench" / "histories").glob("*.xz"))) == 4


def _contents(folder: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*")}


def test_all_of_it_runs_on_the_simulated_gpu_and_writes_into_out_alone(packed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    before = _contents(packed)
    sandbox = (sys.executable, SANDBOX, out, "--")
    done = start(packed, tmp_path, "all", "--minutes", "10", "--out", str(out), prefix=sandbox)
    if done.status == NO_LANDLOCK:  # where it came from is looked at all the same
        done = start(packed, tmp_path, "all", "--minutes", "10", "--out", str(out))
    assert done.status == 0, done.out + done.err
    assert _contents(packed) == before
    assert list((tmp_path / "home").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "out"]

    found = results(out)
    assert found["where"]["simulated"] is True
    assert found["where"]["software"]["commit"]
    assert [step["name"] for step in found["steps"]] == [step.name for step in kit.steps("all")]
    checks = [check for step in found["steps"] for check in step["checks"]]
    # Every call that the steps make is simulated, so that each of them is carried out before it meets hardware.
    assert [check for check in checks if "the simulated GPU has no" in check["said"]] == []
    figures = [figure for step in found["steps"] for figure in step["figures"]]
    assert figures
    assert {figure["value"] for figure in figures} == {None}
    shown = (out / "table.txt").read_text()
    assert shown in done.out
    assert shown.splitlines()[0].endswith("a SIMULATED GPU: nothing here was measured")
    assert all(step.name in shown for step in kit.steps("all"))


def test_python_without_torch_is_named(packed: Path, tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    bare.chmod(0o755)
    done = run(packed / "run", "facts", env={"PATH": "/usr/bin:/bin", "PYTHON": str(bare)}, cwd=tmp_path)
    assert f"{bare} has no torch" in done.assert_refused()
    done = run(packed / "run", "facts", env={"PATH": "/usr/bin:/bin", "PYTHON": "/nowhere/python"}, cwd=tmp_path)
    assert "/nowhere/python is not found" in done.assert_refused()


def test_what_lies_in_the_working_directory_is_not_run(packed: Path, tmp_path: Path) -> None:
    trap = tmp_path / "frugal_alloc"
    trap.mkdir()
    (trap / "__init__.py").write_text("raise SystemExit('the wrong one')")
    done = start(packed, tmp_path, "facts", "--minutes", "none")
    assert "not a number of minutes" in done.assert_refused()


def test_folder_with_files_is_not_packed_into(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = run(sys.executable, PACK, "pack", tmp_path)
    assert done.status == 1
    assert "not empty" in done.err
    assert os.listdir(tmp_path) == ["mine"]


def test_what_is_not_built_is_named_with_what_builds_it(tmp_path: Path) -> None:
    empty = {**os.environ, "FRUGAL_SIM_LIBRARIES": str(tmp_path)}
    done = run(sys.executable, PACK, "pack", tmp_path / "kit", env=empty)
    assert done.status == 1
    assert "tools/setup" in done.err
    assert not (tmp_path / "kit").exists()


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
