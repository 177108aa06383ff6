"""The example reports: pages that the package draws from what real runs have reported.

What was recorded lies in docs/reports/examples as JSON, as `--json` and report_dir write it. `python tools/site
--record` makes it.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bindings"), str(ROOT / "tools")]
from frugal_alloc._planning.fit import page as fit_page  # noqa: E402
from frugal_alloc._planning.fit.verdict import of_document  # noqa: E402
from frugal_alloc._report import page as report_page  # noqa: E402
from pictures import runs  # noqa: E402

FOLDER = ROOT / "docs" / "reports" / "examples"
_FRUGAL_ALLOC = [sys.executable, "-m", "frugal_alloc"]
_TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


def pages() -> dict[str, str]:
    """By name below docs/, the page."""
    found = {}
    for path in sorted(FOLDER.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        name = path.with_suffix(".html").relative_to(ROOT / "docs").as_posix()
        found[name] = fit_page.render(of_document(document)) if path.stem == "fit" else report_page.render(document)
    return found


def record() -> int:
    try:
        found = {
            "leak": _report("4GiB", "none", "examples/stories/leak.py", "--allocator", "frugal"),
            "out_of_memory": _report("1GiB", "cpu", "examples/stories/caught_error.py"),
            "fit": _fit(),
            "tensorflow": _printed("report", "tests/reports/tensorflow/growing.log.gz", "--json"),
        }
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        # Nothing is written unless all is there.
        print(f"nothing was recorded: {error}: {getattr(error, 'stderr', None) or ''}"[-2000:], file=sys.stderr)
        return 2
    for name, document in found.items():
        # One key a line, and files by their place in the repository, wherever that lay.
        lines = (f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in document.items())
        text = ("{\n" + ",\n".join(lines) + "\n}\n").replace(f"{ROOT}/", "")
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")
    return 0


def _report(memory: str, values: str, *program: str) -> Any:
    """What a program's process reports as it ends."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*_FRUGAL_ALLOC, "simulate", "--memory", memory, "--values", values, "--", sys.executable, *program]
        # A program that runs out of memory ends with status 1.
        _run(command, statuses=(0, 1), FRUGAL_ALLOC_CONF=f"report_dir:{folder}")
        [report] = pathlib.Path(folder).glob("frugal-*.json")
        return json.loads(report.read_text(encoding="utf-8"))


def _fit() -> Any:
    program = ["examples/fit/fsdp.py", "--layers", "4", "--length", "256"]
    options = ["--gpu", "A100-40GB", "--gpus", "2", "--json"]
    document = _printed("fit", *options, "--", *_TORCHRUN, *program)
    for verdict in document["verdicts"]:
        # As a reader would have started it.
        verdict["command"] = ["torchrun", *_TORCHRUN[3:], *program]
    return document


def _printed(*arguments: str) -> Any:
    return json.loads(_run([*_FRUGAL_ALLOC, *arguments]))


def _run(command: list[str], statuses: tuple[int, ...] = (0,), **settings: str) -> str:
    environment = runs.unset_environment() | settings
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode not in statuses:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return done.stdout
