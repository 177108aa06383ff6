"""Starts the jobs of ``jobs/``, each in a process of its own, and reads what they print of their memory."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

JOBS = Path(__file__).resolve().parent / "jobs"
UNITS = {"GB": 10**9, "GiB": 1 << 30, "MB": 10**6, "MiB": 1 << 20, "bytes": 1}
# As `frugal-alloc fit` has it: time and workspaces are modelled, and what is large stands on no memory of the host.
MODELLED = {"FRUGAL_SIM_TIME": "modelled", "FRUGAL_SIM_WORKSPACES": "modelled", "FRUGAL_SIM_KEEP": "1MiB"}
PACKAGES = ("torch", "torchvision", "transformers", "accelerate")
TIMEOUT_SECONDS = 1800


class JobFailed(Exception):
    """A job did not run to its end; the message is the last line that it printed."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    figures: dict[str, int]
    seconds: float


def on_simulated_gpu(job: str, arguments: Sequence[str], gpu: str, base: Mapping[str, str]) -> Outcome:
    """
    Raises:
        JobFailed: it did not run to its end.
    """
    start = [sys.executable, "-m", "frugal_alloc", "simulate", "--gpu", gpu, "--"]
    return run([*start, *command(job, arguments)], {**base, **MODELLED})


def command(job: str, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, str(JOBS / job), *arguments]


def run(line: Sequence[str], environment: Mapping[str, str]) -> Outcome:
    began = time.monotonic()
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    seconds = time.monotonic() - began
    printed = done.stdout.strip().splitlines()
    if done.returncode != 0 or not printed:
        raise JobFailed(" ".join((done.stderr.strip().splitlines() or ["it printed nothing"])[-1:]))
    return Outcome(json.loads(printed[-1]), seconds)


def versions() -> dict[str, str]:
    """Of the packages that the jobs use."""
    result = {"python": sys.version.split()[0]}
    for package in PACKAGES:
        try:
            result[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return result
