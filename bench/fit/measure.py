"""Measures the jobs of ``jobs/`` on a real GPU, for ``measured.json``, with which a test compares predictions.

On the machine with the GPU, from the root of a checkout: ``.venv/bin/python -m bench.fit.measure``. It needs torch,
torchvision and transformers, and the GPU for itself. What is there of the same GPU is replaced, the rest is kept. Jobs
that the GPU is too small for are left out, and named.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

from frugal_alloc._common.arguments import Parser

from bench import output_file

from . import programs, published

RESULTS = Path(__file__).resolve().parent / "measured.json"
QUERY = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"]
# Under the allocator that PyTorch has, and under that with expandable segments.
ALLOCATORS = {"native": "", "expandable": "expandable_segments:True"}


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a job took on a GPU. ``in_use`` is of all that runs there, as nvidia-smi says it."""

    name: str
    job: str
    arguments: list[str]
    gpu: str
    driver: str
    allocator: str
    max_allocated: int
    max_reserved: int
    in_use: int
    versions: dict[str, str]


def load() -> list[Measured]:
    """All that was measured; none where nobody has."""
    if not RESULTS.exists():
        return []
    return [Measured(**entry) for entry in json.loads(RESULTS.read_text(encoding="utf-8"))]


def measure(entry: published.Published, allocator: str, gpu: str, driver: str) -> Measured:
    """
    Raises:
        JobFailed: it did not run to its end.
    """
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": ALLOCATORS[allocator]}
    figures = programs.run(programs.command(entry.job, entry.arguments), environment).figures
    return Measured(
        name=entry.name,
        job=entry.job,
        arguments=entry.arguments,
        gpu=gpu,
        driver=driver,
        allocator=allocator,
        max_allocated=figures["max_allocated"],
        max_reserved=figures["max_reserved"],
        in_use=figures["in_use"],
        versions=programs.versions(),
    )


def predict(entry: Measured) -> programs.Outcome:
    """The same job on the simulated GPU of that name.

    Raises:
        JobFailed: it did not run to its end.
    """
    base = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": ALLOCATORS[entry.allocator]}
    return programs.on_simulated_gpu(entry.job, entry.arguments, entry.gpu, base)


def main(arguments: list[str] | None = None) -> int:
    parser = Parser("measure", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="measure the jobs whose name has this in it")
    options = parser.parse_args(arguments)
    try:
        told = subprocess.run(QUERY, check=True, capture_output=True, text=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        parser.error("there is no NVIDIA GPU here: nvidia-smi names none")
    gpu, _, driver = (part.strip() for part in told.split(","))
    found = []
    for entry in published.load():
        for allocator in ALLOCATORS if options.only in entry.name else ():
            try:
                found.append(measure(entry, allocator, gpu, driver))
            except programs.JobFailed as error:
                print(f"left out: {entry.name}: {error}", file=sys.stderr)
    done = {(each.name, each.allocator) for each in found}
    kept = [each for each in load() if each.gpu != gpu or (each.name, each.allocator) not in done]
    entries = [dataclasses.asdict(each) for each in kept + found]
    output_file.write(RESULTS, json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(found)} measured on {gpu}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
