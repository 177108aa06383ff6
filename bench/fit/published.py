"""Compares peaks that others have measured and published with what the same jobs take on the simulated GPU.

``published.json`` has the figures: what was measured, on which GPU, with which versions, to which digit, where it is
published, and in what the job here differs. ``jobs`` has the jobs; some need transformers. The result is
``published_results.json``, which published.md shows.

From the root of a checkout: ``.venv/bin/python -m bench.fit.published``; ``--only TEXT`` for some of them. The torch is
that of the Python which runs this: of an environment with the one that was measured, if there is a wheel of it.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from frugal_alloc._common import whole_files
from frugal_alloc._common.arguments import Parser

from bench.table import Table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
JOBS = HERE / "jobs"
TABLE = HERE / "published.json"
RESULTS = HERE / "published_results.json"
PAGE = HERE / "published.md"
UNITS = {"GB": 10**9, "GiB": 1 << 30, "MB": 10**6, "MiB": 1 << 20, "bytes": 1}
# As `frugal-alloc fit` has it: time and workspaces are modelled, and what is large stands on no memory of the host.
MODELLED = {"FRUGAL_SIM_TIME": "modelled", "FRUGAL_SIM_WORKSPACES": "modelled", "FRUGAL_SIM_KEEP": "1MiB"}
PACKAGES = ("torch", "torchvision", "transformers", "accelerate", "diffusers")
TIMEOUT_SECONDS = 1800


class JobFailed(Exception):
    """A job did not run to its end; the message is the last line that it printed."""


@dataclasses.dataclass(frozen=True)
class Published:
    """A figure that somebody has measured.

    Attributes:
        gpu: The simulated GPU for it; ``gpu_published`` is what the source says.
        metric: max_allocated, max_reserved or allocated, as PyTorch counts; in_use, as nvidia-smi does.
        rounding_bytes: How far the measured figure may be from the published one, since that was rounded.
        differs: In what the job differs from the one that was measured.
        context_bytes: What the source says that the CUDA context took; 0: nothing.
    """

    name: str
    job: str
    arguments: dict[str, Any]
    gpu: str
    metric: str
    published: str
    bytes: int
    rounding_bytes: int
    gpu_published: str
    versions: str
    source: str
    differs: str
    context_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Result:
    published: Published
    predicted_bytes: int
    seconds: float
    torch: str  # that predicts

    @property
    def error(self) -> float:
        """How far the prediction is from what the published figure may have been before it was rounded."""
        off = self.predicted_bytes - self.published.bytes
        beyond = max(0, abs(off) - self.published.rounding_bytes)
        return (beyond if off > 0 else -beyond) / self.published.bytes


def load() -> list[Published]:
    return [Published(**entry) for entry in json.loads(TABLE.read_text(encoding="utf-8"))]


def results() -> list[Result]:
    """What was found when this was last run."""
    return _joined(json.loads(RESULTS.read_text(encoding="utf-8"))["results"])


def _joined(found: dict[str, dict[str, Any]]) -> list[Result]:
    return [Result(entry, **found[entry.name]) for entry in load() if entry.name in found]


def predict(entry: Published) -> dict[str, Any]:
    """The fields of a result that published.json does not have.

    Raises:
        JobFailed: the job did not run to its end.
    """
    context = {"FRUGAL_SIM_CONTEXT": str(entry.context_bytes)} if entry.context_bytes else {}
    simulate = [sys.executable, "-m", "frugal_alloc", "simulate", "--gpu", entry.gpu, "--"]
    job = [sys.executable, "-m", "bench.fit.jobs", entry.job, json.dumps(entry.arguments)]
    environment = {**os.environ, **MODELLED, **context}
    began = time.monotonic()
    # Where bench is found.
    asked = {"cwd": ROOT, "env": environment, "timeout": TIMEOUT_SECONDS}
    done = subprocess.run([*simulate, *job], capture_output=True, text=True, **asked)
    seconds = round(time.monotonic() - began, 1)
    printed = done.stdout.strip().splitlines()
    if done.returncode != 0 or not printed:
        raise JobFailed((done.stderr.strip().splitlines() or ["it printed nothing"])[-1])
    predicted = json.loads(printed[-1])[entry.metric]
    return {"predicted_bytes": predicted, "seconds": seconds, "torch": importlib.metadata.version("torch")}


def versions() -> dict[str, str]:
    """Of the packages that the jobs use."""
    there = {name.lower() for distribution in importlib.metadata.distributions() if (name := distribution.name)}
    found = {package: importlib.metadata.version(package) for package in PACKAGES if package in there}
    return {"python": sys.version.split()[0], **found}


def table(found: list[Result]) -> str:
    """In Markdown."""
    rows = []
    for result in found:
        published = result.published
        predicted = in_unit_of(published.published, result.predicted_bytes)
        off = "rounding" if result.error == 0 else f"{result.error:+.1%}"
        source = f"[{published.published}]({published.source})"
        rows.append([published.name, published.metric.replace("_", " "), source, predicted, off])
    return Table(["job", "counted", "published", "predicted", "off by"], rows).markdown()


def in_unit_of(published: str, size: int) -> str:
    """A size as the published one is written: in its unit, with one digit more where it has any."""
    figure, unit = published.split(" ")
    digits = len(figure.partition(".")[2])
    more = digits + 1 if unit in ("GB", "GiB") else digits
    return f"{size / UNITS[unit]:.{more}f} {unit}"


def summary(found: list[Result]) -> str:
    """Of what PyTorch calls allocated, and of what takes an allocator or a whole process into account."""
    lines = []
    for kind, is_allocated in (("allocated", True), ("reserved or in use", False)):
        errors = [result.error for result in found if result.published.metric.endswith("allocated") == is_allocated]
        range_ = f"{min(errors):+.1%} to {max(errors):+.1%}"
        lines.append(f"{len(errors)} figures {kind}: median error {statistics.median(map(abs, errors)):.1%}, {range_}")
    return "; ".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = Parser("published", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="run the jobs whose name has this in it")
    parser.add_argument("--output", metavar="FILE", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    document = json.loads(RESULTS.read_text(encoding="utf-8"))
    for entry in load():
        if options.only in entry.name:
            print(entry.name, file=sys.stderr, flush=True)
            document["results"][entry.name] = predict(entry)
    document["versions"][importlib.metadata.version("torch")] = versions()
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    whole_files.write(str(options.output), text.encode())
    found = _joined(document["results"])
    print(table(found), end="")
    print(summary(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
