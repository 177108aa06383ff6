"""``frugal-alloc install-hook``: with FRUGAL_ALLOC=1 any program of a Python has it, else nothing changes."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
import venv
from pathlib import Path
from typing import Any

import frugal_alloc
import pytest
import simulated_gpu
from frugal_alloc._command import startup_hook
from frugal_alloc._common import startup

GIB = 1 << 30
PACKAGES = Path(frugal_alloc.__file__).parents[1]


class Python:
    """An interpreter with site-packages of its own, which has torch and this package."""

    def __init__(self, folder: Path) -> None:
        venv.EnvBuilder(symlinks=True).create(folder)
        self.program = folder / "bin" / "python"
        self.packages = Path(self.run("import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
        # Read before the hook, in the order of names.
        (self.packages / "a_paths.pth").write_text(f"{PACKAGES}\n{os.pathsep.join(_torch_folder())}\n")

    def run(self, code: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in ("FRUGAL_ALLOC", "PYTHONPATH")}
        environment.update({name: value for name, value in changes.items() if value is not None})
        command = [self.program, "-c", textwrap.dedent(code)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)

    def run_on_gpu(self, code: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
        simulated = simulated_gpu.environment(2 * GIB, base={})
        return self.run(code, **(simulated | changes))

    def hook(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.run(f"from frugal_alloc._command import cli; cli.main(['{command}'])")


def _torch_folder() -> list[str]:
    import importlib.util

    return [str(Path(importlib.util.find_spec("torch").origin).parents[1])]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Python:
    return Python(tmp_path_factory.mktemp("python"))


@pytest.fixture
def hooked(python: Python) -> Any:
    assert python.hook("install-hook").returncode == 0
    yield python
    assert python.hook("remove-hook").returncode == 0
    assert not (python.packages / startup_hook.NAME).exists()


def test_installing_and_removing_say_what_they_did_and_may_be_done_twice(python: Python) -> None:
    path = python.packages / startup_hook.NAME
    for _ in range(2):
        done = python.hook("install-hook")
        assert done.stdout.startswith(f"wrote {path}\n"), done
        assert path.read_text().count("\n") == 1
    assert python.hook("remove-hook").stdout == f"removed {path}\n"
    assert python.hook("remove-hook").stdout == f"there is none: {path}\n"


def test_place_that_cannot_be_written_gets_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    monkeypatch.setattr(startup_hook, "path", lambda: occupied / startup_hook.NAME)
    monkeypatch.setattr("site.getsitepackages", lambda: [str(occupied)])
    outcome = command("install-hook")
    assert (outcome.status, outcome.err.count("\n")) == (2, 1)
    assert "cannot write" in outcome.err


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_frugal_alloc_nothing_is_loaded(hooked: Python, value: str | None) -> None:
    done = hooked.run("import sys; print([name for name in sys.modules if 'frugal' in name])", FRUGAL_ALLOC=value)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_torch_is_not_imported_for_a_program_that_does_not(hooked: Python) -> None:
    assert hooked.run("import sys; print('torch' in sys.modules)", FRUGAL_ALLOC="1").stdout == "False\n"


def test_programs_that_import_torch_and_their_spawned_children_have_it(hooked: Python, tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(
        "import torch, frugal_alloc\n"
        "def work(results):\n"
        "    tensor = torch.empty(1000, device='cuda')\n"
        "    results.put((frugal_alloc.is_enabled(), frugal_alloc.memory_stats()['allocated_bytes']))\n"
    )
    done = hooked.run_on_gpu(
        """
        import importlib.util, json
        importlib.util.find_spec("torch")  # libraries look before they import
        import torch
        import sys
        import frugal_alloc, worker
        if __name__ == "__main__":
            context = torch.multiprocessing.get_context("spawn")
            results = context.SimpleQueue()
            child = context.Process(target=worker.work, args=(results,))
            child.start()
            print(json.dumps([frugal_alloc.is_enabled(), results.get(), torch.cuda.is_initialized()]))
            child.join()
        """,
        FRUGAL_ALLOC="1",
        PYTHONPATH=os.pathsep.join((startup.FOLDER, str(tmp_path))),
    )
    assert done.stdout, done.stderr
    assert json.loads(done.stdout) == [True, [True, 4096], False]


@pytest.mark.usefixtures("no_gpu")
def test_what_stands_in_the_way_gets_one_line_and_the_program_goes_on(hooked: Python) -> None:
    done = hooked.run("import torch; print(torch.ones(3).sum().item())", FRUGAL_ALLOC="1")
    assert done.stdout == "3.0\n"
    assert done.stderr.startswith("frugal_alloc: not used: no NVIDIA driver")
    assert done.stderr.count("\n") == 1


def test_value_that_is_neither_0_nor_1_is_named(hooked: Python) -> None:
    done = hooked.run("print('goes on')", FRUGAL_ALLOC="yes")
    assert done.stdout == "goes on\n"
    assert done.stderr == "frugal_alloc: not used: FRUGAL_ALLOC=yes is not possible; it is 0 (off) or 1 (on)\n"


def test_hook_that_outlives_the_package_says_so(hooked: Python) -> None:
    hook = hooked.packages / startup_hook.NAME
    hook.write_text(hook.read_text().replace("__init__.py", "gone.py"))
    done = hooked.run("print('goes on')", FRUGAL_ALLOC="1")
    without = hooked.run("print('goes on')")
    assert (done.stdout, without.stdout, without.stderr) == ("goes on\n", "goes on\n", "")
    told = f"frugal_alloc: not used: the package is not installed here any more; remove {hook}"
    assert set(done.stderr.splitlines()) == {told}


def test_torch_that_fails_to_be_imported_raises_what_it_raises(hooked: Python, tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('damaged')\n")
    code = """
    for _ in range(2):
        try:
            import torch
        except ImportError as error:
            print(error)
    """
    done = hooked.run(code, FRUGAL_ALLOC="1", PYTHONPATH=str(tmp_path))
    assert (done.stdout, done.stderr) == ("damaged\ndamaged\n", "")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_package_whose_path_is_odd_is_enabled_in_every_locale(
    python: Python, tmp_path: Path, locale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python reads the hook in the encoding of the locale that it starts in, and fails where that does not fit."""
    package = tmp_path / 'zo\u00e9 "quoted" {name}' / "frugal_alloc"
    package.mkdir(parents=True)
    (package / "_common" / "startup").mkdir(parents=True)
    (package / "_common" / "startup" / "__init__.py").write_text("def enable_after_torch(): print('enabled')\n")
    target = python.packages / startup_hook.NAME
    monkeypatch.setattr(startup_hook, "path", lambda: target)
    monkeypatch.setattr("site.getsitepackages", lambda: [str(target.parent)])
    monkeypatch.setattr(startup_hook, "__file__", str(package / "_command" / "startup_hook.py"))
    try:
        startup_hook.install()
        assert target.read_bytes().isascii()
        variables = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "FRUGAL_ALLOC": "1"}
        done = python.run("print('goes on')", **variables)
        assert (set(done.stdout.splitlines()), done.stderr) == ({"enabled", "goes on"}, "")
    finally:
        target.unlink(missing_ok=True)
