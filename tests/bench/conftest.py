"""What several tests of benches start."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BAZEL = shlex.split(os.environ.get("BAZEL", "bazel"))


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """//bench:policy_player: a copy, which no later build changes."""
    assert shutil.which(BAZEL[0]) is not None, f"{BAZEL[0]} not found; run tools/setup"
    quiet = ["--noshow_progress", "--ui_event_filters=-info"]
    subprocess.run([*BAZEL, "build", *quiet, "//bench:policy_player"], cwd=ROOT, check=True)
    built = ROOT / ".bazel" / "bin" / "bench" / "policy_player"
    return Path(shutil.copy(built, tmp_path_factory.mktemp("program") / "policy_player"))
