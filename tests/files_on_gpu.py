"""Files of tests that use a GPU. CUDA's libraries can be replaced only as a process starts.

So for such a file pytest collects one item, which runs the file's tests in a pytest of its own, on the simulated GPU.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable

import fork_server
import pytest

# Set for the pytest of a file.
INSIDE = "FRUGAL_TEST_ON_SIMULATED_GPU"


# Of a file: on a real GPU others are still to come.
MOST_SECONDS = 300 if "FRUGAL_TEST_GPU" in os.environ else 1800


class ChildFailed(Exception):
    """Its message is what the child printed."""


class Item(pytest.Item):
    def __init__(self, *, environment: Callable[[], dict[str, str]], **arguments) -> None:
        super().__init__(**arguments)
        self.environment = environment

    def runtest(self) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "--no-header", "-p", "no:cacheprovider", str(self.path)]
        if keyword := self.config.getoption("keyword"):
            command += ["-k", keyword]
        # What a test leaves in its working directory, as reports of memory that runs out are, goes with that.
        with tempfile.TemporaryDirectory() as folder:
            done = fork_server.run(command, env=self.environment() | {INSIDE: "1"}, cwd=folder, timeout=MOST_SECONDS)
        self.add_report_section("call", "tests", done.stdout)
        self.add_report_section("call", "simulated GPU", done.stderr)
        nothing_selected = keyword and done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
        if done.returncode != 0 and not nothing_selected:
            raise ChildFailed(done.stdout + done.stderr)

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value) if isinstance(excinfo.value, ChildFailed) else super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, f"{self.path.name} {self.name}"


class FileOnGpu(pytest.File):
    """`environment` makes that of the file's pytest, which has INSIDE besides."""

    def __init__(self, *, environment: Callable[[], dict[str, str]], **arguments) -> None:
        super().__init__(**arguments)
        self.environment = environment

    def collect(self):
        yield Item.from_parent(self, name="[simulated GPU]", environment=self.environment)


def is_inside() -> bool:
    return INSIDE in os.environ
