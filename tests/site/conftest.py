"""The site as tools/site builds it, once for all tests of a session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "site"))
from built_site import Site  # noqa: E402


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Built with nothing of this process's environment but where it writes."""
    pytest.importorskip("material", reason="tools/setup installs what builds the site")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "tools" / "site"), "--out", str(folder)]
    # Where the temporary folder is alone; without PATH and HOME.
    done = subprocess.run(
        command, cwd=folder, env={"TMPDIR": os.environ.get("TMPDIR", "/tmp")}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Site(folder)
