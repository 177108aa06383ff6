"""Has each file run on the simulated GPU, in a pytest of its own; or here, on this machine's GPU, with FRUGAL_TEST_GPU.

"real" says that nobody else uses the GPU, whose memory may be filled then; "shared" says that somebody may.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "bindings", ROOT / "simulated_gpu" / "python")
for _folder in (ROOT / "tests", *PACKAGES, ROOT):
    if str(_folder) not in sys.path:
        sys.path.append(str(_folder))
import files_on_gpu  # noqa: E402

MEMORY = 8 << 30

if not files_on_gpu.is_inside() and "FRUGAL_TEST_GPU" not in os.environ:

    def _environment() -> dict[str, str]:
        import simulated_gpu

        environment = simulated_gpu.environment(MEMORY) | {"FRUGAL_SIM_ORDER": "1"}
        paths = (*PACKAGES, ROOT / "tests", ROOT, environment.get("PYTHONPATH", ""))
        return environment | {"PYTHONPATH": os.pathsep.join(filter(None, map(str, paths)))}

    def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> Any:
        return files_on_gpu.FileOnGpu.from_parent(parent, path=module_path, environment=_environment)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "starves: takes what all who map memory need; run it by `-m starves` alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("starves") and "starves" not in config.getoption("markexpr"):
            item.add_marker(pytest.mark.skip(reason="starves all who map memory: only with -m starves"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """An error that says nothing of the GPU is no failure."""
    from hardware.on_gpu import says_nothing

    try:
        yield
    except Exception as error:
        if says_nothing(error):
            pytest.skip(f"not found out: {error}")
        raise


pytest_runtest_setup = pytest_runtest_call


@pytest.fixture
def gpu() -> Iterator[Any]:
    """The GPU with its context."""
    from frugal_alloc._command.doctor.driver import opened_gpu

    with opened_gpu() as opened:
        if not opened.attribute("VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"):
            pytest.skip("this GPU has no virtual memory management, so frugal_alloc maps nothing on it")
        yield opened


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Keeps a figure for the table at the end, and for --junitxml. Of the simulated GPU there are none."""
    from hardware.on_gpu import SIMULATED

    def keep(name: str, value: float, unit: str = "", said: str = "") -> None:
        shown = "not shown here" if SIMULATED else f"{value:.6g} {unit}".rstrip()
        record_property(name, f"{shown}{'  ' if said else ''}{said}")

    return keep


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [each for key in ("passed", "failed", "skipped") for each in terminalreporter.stats.get(key, ())]
    rows = [row for report in reports for row in getattr(report, "user_properties", ())]
    if rows:
        terminalreporter.section("figures")
        width = max(len(name) for name, _ in rows)
        for name, said in dict(rows).items():
            terminalreporter.line(f"{name:{width}}  {said}")
