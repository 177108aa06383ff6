"""What other estimates say of the jobs whose peaks are published, how long they take, and what they cannot run.

Each estimate is run by ``estimate_job.py``: PyTorch's MemTracker on tensors without memory, and the formula of Hugging
Face's ``accelerate estimate-memory``. MemTracker is tried without a GPU, and where that fails on a machine that has
one; that is the simulated one here, of which MemTracker uses nothing. The result is ``estimators.json``.

From the root of a checkout: ``.venv/bin/python -m bench.fit.estimators``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from frugal_alloc._common.arguments import Parser
from frugal_alloc._simulation import gpu_models, simulated_gpu

from bench import markdown, output_file

from . import programs, published

RESULTS = Path(__file__).resolve().parent / "estimators.json"
TIMEOUT_SECONDS = 300
CONDITIONS = "Two cores, which other programs used, too. Jobs that are not here were not tried."
METHODS = ("MemTracker", "MemTracker, adapted", "accelerate")
# Of these nothing can be said by a formula for trainings.
WITHOUT_A_MODEL = ("growing.py", "linear.py")


@dataclasses.dataclass(frozen=True)
class Estimate:
    """``bytes`` is None where the estimate cannot run the job: ``error`` says why."""

    name: str
    method: str
    machine: str
    bytes: int | None
    seconds: float
    error: str = ""


def estimate(entry: published.Published, method: str) -> list[Estimate]:
    """Without a GPU, and on one where that fails."""
    line = [sys.executable, "-W", "ignore", "-m", "bench.fit.estimate_job", method, entry.job, *entry.arguments]
    first = _run(entry, method, "no GPU", line, os.environ)
    if first.bytes is not None or not method.startswith("MemTracker"):
        return [first]
    model = gpu_models.find(entry.gpu)
    base = {**os.environ, **model.environment()}
    on_gpu = simulated_gpu.environment(model.memory_bytes, backing="none", base=base)
    return [first, _run(entry, method, "a GPU", line, on_gpu)]


def _run(
    entry: published.Published, method: str, machine: str, line: Sequence[str], environment: Mapping[str, str]
) -> Estimate:
    began = time.monotonic()
    try:
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return Estimate(entry.name, method, machine, None, TIMEOUT_SECONDS, f"not done after {TIMEOUT_SECONDS} s")
    seconds = round(time.monotonic() - began, 1)
    if done.returncode != 0:
        return Estimate(entry.name, method, machine, None, seconds, _reason(done.stderr))
    return Estimate(entry.name, method, machine, json.loads(done.stdout.splitlines()[-1])["peak_bytes"], seconds)


def _reason(text: str) -> str:
    """The error's line of a traceback, or the last one."""
    lines = [line for line in text.strip().splitlines() if line and not line.startswith((" ", "\t"))]
    return (lines or ["it printed nothing"])[-1][:200]


def results() -> list[Estimate]:
    """What was found when this was last run."""
    return [Estimate(**entry) for entry in json.loads(RESULTS.read_text(encoding="utf-8"))["results"]]


def table(found: Sequence[Estimate], ours: Sequence[published.Result]) -> str:
    """In Markdown."""
    rows = []
    for result in ours:
        cells = [result.name, result.published, published.in_unit_of(result.published, result.predicted_bytes)]
        cells.append(f"{result.seconds:.0f}")
        for method in METHODS:
            tried = [each for each in found if each.name == result.name and each.method == method]
            said = next((each for each in tried if each.bytes is not None), None)
            if said is None:
                cells += ["cannot", f"{tried[-1].seconds:.0f}"] if tried else ["", ""]
            else:
                size = published.in_unit_of(result.published, said.bytes or 0)
                cells += [size, f"{said.seconds:.0f}"]
        rows.append(cells)
    head = ["job", "published", "this", "s", "MemTracker", "s", "adapted", "s", "accelerate", "s"]
    return markdown.table(head, rows)


def main(arguments: list[str] | None = None) -> int:
    parser = Parser("estimators", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="run the jobs whose name has this in it")
    options = parser.parse_args(arguments)
    entries = published.load()
    found = [each for each in results() if options.only not in each.name] if RESULTS.exists() else []
    for entry in entries:
        if options.only not in entry.name:
            continue
        print(entry.name, file=sys.stderr, flush=True)
        for method in METHODS:
            if method != "accelerate" or entry.job not in WITHOUT_A_MODEL:
                found += estimate(entry, method)
    order = {entry.name: number for number, entry in enumerate(entries)}
    found.sort(key=lambda each: order[each.name])
    versions = programs.versions()
    document = {
        "command": "python -m bench.fit.estimators",
        "conditions": CONDITIONS,
        "versions": versions,
        "results": [dataclasses.asdict(each) for each in found],
    }
    output_file.write(RESULTS, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(table(found, published.results()), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
