"""``frugal-alloc demo``: an error explained, a leak found, and memory in pieces, in half a minute without a GPU."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import simulated_gpu

from ..._common import installation
from ..._common.arguments import Parser
from ..._common.messages import Refused, format_bytes, format_columns

PROGRAMS = Path(__file__).resolve().parent / "programs"
PACKAGES = Path(__file__).resolve().parents[3]
MIB = 1 << 20
FOR_BATCH = 4096 * MIB
BATCH = 64
FOR_LEAK = 1024 * MIB
FOR_PIECES = 2048 * MIB
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
ALLOCATORS = {"PyTorch": {}, "PyTorch, expandable segments": EXPANDABLE, "frugal_alloc": {}}


def add(parser: Parser) -> None:
    parser.description = (
        "Runs three small programs on a simulated GPU, with PyTorch's allocator and with frugal_alloc: an error "
        "explained and mended, a leak found before memory is out, and a training whose memory falls to pieces. "
        "It takes half a minute and needs no GPU."
    )


def carry_out(options: argparse.Namespace) -> int:
    installation.find_cuda_torch()
    print(f"All of this runs on a simulated GPU. The programs lie in {PROGRAMS}.")
    _show_batch()
    _show_leak()
    _show_pieces()
    return 0


def _show_batch() -> None:
    _print_title(f"1. A batch of {BATCH} that is too large for {format_bytes(FOR_BATCH)}: too_large.py")
    theirs = _error_of(_run("too_large.py", "pytorch", str(BATCH), memory=FOR_BATCH))
    # What follows the first sentences is about the setting.
    _print_said("PyTorch says", textwrap.fill(theirs.partition(" If reserved")[0], 96))
    ours = _error_of(_run("too_large.py", "ours", str(BATCH), memory=FOR_BATCH)).partition("\nReport:")[0]
    _print_said("frugal_alloc says", ours)
    fitting = re.search(r"batch of (\d+)", " ".join(ours.split()))
    if fitting:
        done = _run("too_large.py", "ours", fitting[1], memory=FOR_BATCH)
        _print_said(f"With a batch of {fitting[1]}, as it says", done.stdout or _error_of(done))


def _show_leak() -> None:
    _print_title("2. A leak, found while there is memory: leaking.py")
    _print_said("frugal_alloc.report() says", _run("leaking.py", memory=FOR_LEAK).stdout.partition("\n\nGPU")[0])


def _show_pieces() -> None:
    _print_title(f"3. Tensors of many sizes, some of which stay, on {format_bytes(FOR_PIECES)}: pieces.py")
    rows = [("allocator", "ended", "most allocated", "most reserved")]
    for name, variables in ALLOCATORS.items():
        allocator = "ours" if name == "frugal_alloc" else "pytorch"
        done = _run("pieces.py", allocator, memory=FOR_PIECES, **variables)
        end, *most = done.stdout.strip().rsplit(" ", 2)
        rows.append((name, end, *(format_bytes(int(size)) for size in most)))
    print(*(f"  {line}" for line in format_columns(rows, 2)), sep="\n")


def _run(program: str, *arguments: str, memory: int, **variables: str) -> subprocess.CompletedProcess[str]:
    """One of the programs, with the usual settings, in a folder of its own, which goes with what it leaves there.

    It is a copy that runs: among installed packages its lines would be a library's.
    """
    ours = ("FRUGAL_", "PYTORCH_")
    base = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    base["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PACKAGES), base.get("PYTHONPATH")]))
    environment = simulated_gpu.environment(memory, base=base | variables)
    with tempfile.TemporaryDirectory() as folder:
        (copies := Path(folder, PROGRAMS.name)).mkdir()
        command = [sys.executable, shutil.copy(PROGRAMS / program, copies), *arguments]
        return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)


def _error_of(done: subprocess.CompletedProcess[str]) -> str:
    """What its out-of-memory error says.

    Raises:
        Refused: it has not ended with one.
    """
    _, is_out_of_memory, error = done.stderr.partition("OutOfMemoryError: ")
    if not is_out_of_memory:
        last = done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}"
        raise Refused(f"a program of the demo ended otherwise than it should: {last} (frugal-alloc doctor tells more)")
    return error.strip()


def _print_title(title: str) -> None:
    print(f"\n{title}\n{'-' * len(title)}")


def _print_said(who: str, text: str) -> None:
    print(f"{who}:\n{textwrap.indent(text.strip(), '  ')}\n", flush=True)
