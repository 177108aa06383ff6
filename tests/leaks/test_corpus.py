"""Programs as people write them: the line, the holder and the remedy of a leak are right; the innocent are silent.

What a program's module does may be done by a function, too, which has ended by the time of the report at exit: that
changes nothing. Most programs in a function are left to FRUGAL_TEST_ALL=1.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import claims
import fork_server
import pytest
import simulated_gpu
import wrapped

HERE = Path(__file__).resolve().parent
# Beside the package, what stands for other people's packages in the programs, and their own other files.
PATHS = (fork_server.BINDINGS, HERE / "libraries" / "site-packages", claims.PROGRAMS)
ARE_ALL = os.environ.get("FRUGAL_TEST_ALL") == "1"
NAMES = claims.all_names()
# What is known of these ends with the function: optimizers that train, hooks, what was not yet listed.
ENDED = ("custom_function_context", "folds_never_let_go", "forward_hook_gathers", "kept_beside_a_full_deque")
IN_A_FUNCTION = NAMES if ARE_ALL else [name for name in NAMES if name in ENDED or name.startswith("meant_")]


@pytest.mark.parametrize("name", NAMES)
def test_report_says_what_is_so(name: str, tmp_path: Path) -> None:
    assert_report_is_right(claims.read(name), claims.PROGRAMS / f"{name}.py", tmp_path)


@pytest.mark.parametrize("name", IN_A_FUNCTION)
def test_report_says_the_same_once_the_function_has_ended(name: str, tmp_path: Path) -> None:
    program = tmp_path / Path(f"{name}.py").name
    program.write_text(wrapped.in_function((claims.PROGRAMS / f"{name}.py").read_text()))
    assert_report_is_right(claims.read(name, program), program, tmp_path)


def assert_report_is_right(claim: claims.Claim, program: Path, tmp_path: Path) -> None:
    base = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, PATHS))}
    environment = simulated_gpu.environment(4 << 30, values=claim.values, base=base)
    environment["FRUGAL_ALLOC_CONF"] = f"report_dir:{tmp_path}"
    command = [sys.executable, "-m", "frugal_alloc", "run", program]
    done = fork_server.run(command, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = tmp_path.glob("frugal-*.json")
    assert claims.shortcomings(claim, json.loads(file.read_text())) == [], f"{claim.kind}: {claim.about}"
