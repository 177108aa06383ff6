"""Runs programs on the simulated GPU: an environment in which the dynamic linker loads it in the place of CUDA.

The libraries lie in ``_lib`` beside this file; ``FRUGAL_SIM_LIBRARIES`` names another folder. Those of
CUDA 12 and 13 are preloaded together: the linker binds a program to the ones whose symbol versions it asks for, and the
CUDA 12 runtime forwards to the CUDA 13 one, so that a process has one simulated GPU whichever it was built for.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import driver_options
from .messages import Refused, format_bytes, on_one_line
from .modelled_machine import ModelledMachine, said, variable

HERE = Path(__file__).resolve().parent
STARTUP = HERE / "startup"

# PyTorch's own libraries look beside themselves before they look at LD_LIBRARY_PATH, so these are preloaded; libcuda is
# opened by name and found on the path. Names that an installation may lack are left out.
PRELOADED = (
    "libcudart.so.13",
    "libcudart.so.12",
    "libcublas.so.13",
    "libcublas.so.12",
    "libcublasLt.so.13",
    "libcublasLt.so.12",
    "libcudnn.so.9",
    "libcudnn.so.8",
    "libcufft.so.12",
    "libcufft.so.11",
    "libcusolver.so.12",
    "libcusolver.so.11",
    "libcusparse.so.12",
    "libnccl.so.2",
)
# What the kernel says of memory, where the simulated GPU has the host's.
HOST = "libfrugal_sim_host.so"
NEEDED = ("libcudart.so.13", "libcuda.so.1", "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9")

MOST_GPUS = 16
# By the end of a library's head (ELF).
ARCHITECTURES = {b"\x3e\0": "x86_64", b"\xb7\0": "aarch64"}
DRIVER_MEMORY = 512 << 20  # the driver's own, unless FRUGAL_SIM_CONTEXT says otherwise
UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
ENDING_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
SIGNALS = {*ENDING_SIGNALS, signal.SIGUSR1, signal.SIGUSR2}
SENT_BY_KERNEL = 128  # siginfo's si_code of a signal that the terminal has sent to every process of the foreground


class SimulationError(Refused):
    """The simulated GPU cannot be had as asked for; the message is one line that says what to do."""


class SizeError(argparse.ArgumentTypeError, ValueError):
    """A size that is not one; as an argparse type its message is shown as it is."""


def parse_size(text: str) -> int:
    """Bytes from "16GiB", "16G", "512MiB", "1.5GiB" or plain "1073741824"; units are powers of 1024.

    "16GB" is refused: a GB is 10^9 bytes to some, and 2^30 to others.

    Raises:
        SizeError: the text is not a size above zero.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?\s*", text, re.IGNORECASE | re.ASCII)
    # Twenty digits are more than any size has, and a float holds them.
    size = int(float(match[1]) * UNITS[match[2].lower()]) if match and len(match[1]) <= 20 else 0
    if match and match[2] and (match[3] or "").lower() == "b":
        meant = f"{match[1]}{match[2].upper()}iB"
        raise SizeError(f"{text!r:.60} has two meanings, powers of 1000 and of 1024; write {meant} for those of 1024")
    if not 0 < size < 1 << 47:
        raise SizeError(f"{text!r:.60} is not an amount of memory; write it like 16GiB, 512MiB or 1073741824")
    return size


def libraries() -> Path:
    """The folder of the simulated GPU's libraries.

    Raises:
        SimulationError: they have not been built, or for another architecture.
    """
    folder = Path(said("libraries", os.environ) or HERE / "_lib").resolve()
    missing = [name for name in NEEDED if not (folder / name).exists()]
    if missing:
        raise SimulationError(
            f"the simulated GPU is not built: {folder} has no {missing[0]}; run tools/setup, or install a wheel with it"
        )
    with open(folder / "libcuda.so.1", "rb") as file:
        built_for = ARCHITECTURES.get(file.read(20)[18:])
    if built_for not in (None, machine := os.uname().machine):
        raise SimulationError(
            f"libcuda.so.1 in {folder} is built for {built_for}, and this Python runs on {machine}; install the "
            f"simulated GPU again in this environment, from the wheel for {machine}"
        )
    if ":" in str(folder):
        raise SimulationError(f"the path of the simulated GPU has a colon in it, install it elsewhere: {folder}")
    return folder


def environment(
    memory: int,
    gpus: int = 1,
    values: str = "none",
    backing: str = "memory",
    base: Mapping[str, str] = os.environ,
    machine: ModelledMachine | None = None,
) -> dict[str, str]:
    """The environment that puts a program on the simulated GPU.

    Args:
        memory: Bytes of memory of each GPU.
        gpus: How many there are.
        values: "none": kernels do nothing but for small integers and booleans in a Python program, and what depends on
            other values is made up; "cpu": the CPU computes the values of all of PyTorch's operators there (values/).
        backing: "none" leaves out the host memory behind the addresses, for programs that never touch it.
        base: The environment to start from. What it says about real GPUs is left out.
        machine: What the machine is like beyond that; its variables take the place of the environment's.

    Raises:
        SimulationError: there can be no such GPU, or the libraries are not built.
    """
    if not 1 <= gpus <= MOST_GPUS:
        raise SimulationError(f"{gpus} simulated GPUs are not possible; ask for 1 to {MOST_GPUS}")
    if memory <= DRIVER_MEMORY and variable("context") not in base:
        kept = format_bytes(DRIVER_MEMORY)
        raise SimulationError(f"{format_bytes(memory)} is too little memory for a GPU: its driver keeps {kept} of it")
    if values not in ("none", "cpu") or backing not in ("memory", "none"):
        raise SimulationError(f"values={values!r}, backing={backing!r}: only none or cpu, and memory or none, exist")
    if values == "cpu" and backing == "none":
        raise SimulationError("values can be computed only where the simulated memory is backed by the host's")
    if machine is not None:
        base = {**base, **machine.variables()}
    if values == "cpu" and said("kept", base):
        raise SimulationError(f"values can be computed only where all data is kept; leave out {variable('kept')}")
    folder = libraries()
    # They choose among the real GPUs of this machine.
    result = {k: v for k, v in base.items() if k not in ("CUDA_VISIBLE_DEVICES", "PYTORCH_NVML_BASED_CUDA_CHECK")}
    _prepend(result, "LD_LIBRARY_PATH", ":", [str(folder)])
    preloaded = [HOST, *PRELOADED] if said("unified", base) == "1" else PRELOADED
    _prepend(result, "LD_PRELOAD", ":", [name for name in preloaded if (folder / name).exists()])
    result |= ModelledMachine(memory=memory, gpus=gpus, backing=backing, values=values).variables()
    if backing == "memory":
        _prepend(result, "PYTHONPATH", ":", [str(STARTUP)])
    return result


def run(
    command: Sequence[str],
    memory: int,
    gpus: int = 1,
    values: str = "none",
    base: Mapping[str, str] = os.environ,
    name: str = "simulated_gpu",
) -> int:
    """Runs a command on the simulated GPU, with this process's streams, and waits for it.

    With several GPUs its processes share them, as the ranks of torchrun do.

    Signals sent to this process go on to the command; those that a terminal sends to both reach it once. Call it from
    the only thread of a process.

    Args:
        name: Of who says on stderr what is run, and what stands in the way; the others are as of :func:`environment`.

    Returns:
        The command's exit status; 128 + n if signal n ended it, as a shell has it; 2, after one line on stderr, if it
        could not be started.
    """
    try:
        child = environment(memory, gpus, values, base=base)
        program = _check(command, child)
        _tell(name, memory, gpus, _said_of_values(values, program, command), said("gpu", child))
        return run_in(command, child)
    except SimulationError as error:
        print(f"{name}: {on_one_line(str(error))}", file=sys.stderr)
        return 2


class Output(enum.Enum):
    """What becomes of a program's output."""

    SHOWN = enum.auto()  # goes where ours goes
    ERRORS = enum.auto()  # all of it goes to our standard error
    HIDDEN = enum.auto()


def run_in(
    command: Sequence[str],
    environment: Mapping[str, str],
    output: Output = Output.SHOWN,
    on_signal: Callable[[int], None] | None = None,
) -> int:
    """Runs a command in an environment that :func:`environment` has made, as :func:`run` does.

    Args:
        on_signal: Called with each signal that came to this process meanwhile, and that it does not ignore.

    Returns:
        The command's exit status; 128 + n if signal n ended it.

    Raises:
        SimulationError: it cannot be started.
    """
    program = _check(command, environment)
    sys.stdout.flush()
    try:
        with driver_options.node_of_command(int(said("gpus", environment)), environment) as node:
            return _spawn_and_wait(program, command, {**environment, **node}, output, on_signal)
    except OSError as error:
        raise SimulationError(f"{command[0]} cannot be run: {error.strerror}") from None


def _prepend(environment: dict[str, str], name: str, separator: str, entries: list[str]) -> None:
    """Puts entries first in a list variable, each once; what follows keeps its order."""
    old = [entry for entry in environment.get(name, "").split(separator) if entry and entry not in entries]
    environment[name] = separator.join(entries + old)


def _tell(who: str, memory: int, gpus: int, note: str, model: str) -> None:
    named = re.search(r"\bname=([^,]+)", model)
    name = named[1] if named else "GPU"
    count = f"a simulated {name}" if gpus == 1 else f"{gpus} simulated {name}{'' if named else 's'}"
    print(f"{who}: running on {count} of {format_bytes(memory)}; {note}", file=sys.stderr, flush=True)


def _said_of_values(values: str, program: str, command: Sequence[str]) -> str:
    if values == "cpu":
        return "values are computed on the CPU"
    if _obstacle_to_values(program, command):
        return "values are not computed, but for small integers and booleans in Python programs"
    return "values are not computed but for small integers and booleans (--values cpu computes all)"


def _check(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """The program that the command names, if it can be run so."""
    program = _find(command, environment)
    if said("values", environment) == "cpu" and (obstacle := _obstacle_to_values(program, command)):
        raise SimulationError(obstacle)
    return program


def _hint(word: str) -> str:
    """What was perhaps meant by a word that is no program."""
    if word.endswith(".py") and os.path.isfile(word):
        return f"; a Python program is run by `python {word}`"
    if re.match(r"[A-Za-z_]\w*=", word):
        return "; a variable is set before the whole command, or by `env` in front of it"
    return ""


def _find(command: Sequence[str], environment: Mapping[str, str]) -> str:
    if not command:
        raise SimulationError("no command to run; write it after --")
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        raise SimulationError(f"{command[0]!r} is not a program that can be found and run{_hint(command[0])}")
    return program


def _obstacle_to_values(program: str, command: Sequence[str]) -> str:
    """Why no values can be computed, since the hook that does is only loaded by Python programs; "" if they can."""
    interpreter, options = program, list(command[1:])
    if words := _script_command(program):
        interpreter, options = words[0], words[1:]
    if not re.fullmatch(r"(python|pypy)[\d.]*t?", os.path.basename(interpreter)):
        return f"values can be computed for Python programs only, and {command[0]} is not one"
    for option in options:
        if not option.startswith("-") or option.startswith("--") or option[1:2] in ("", "c", "m"):
            break
        ignoring = set(option[1:]) & set("EIS")
        if ignoring and option[1] not in "WX":
            return (
                f"values cannot be computed with Python's option -{min(ignoring)}, which leaves out the hook that does"
            )
    return ""


def _script_command(program: str) -> list[str]:
    """The command that a script's first line names; none if the file is no script."""
    with open(program, "rb") as file:
        first, second = (file.readline(4096).decode(errors="replace") for _ in range(2))
    if not first.startswith("#!"):
        return []
    words = first[2:].split()
    if second.startswith("'''exec' "):
        # pip's scripts for long paths begin as a shell script that hands over to Python in its second line.
        with contextlib.suppress(ValueError):  # it only looks like one
            words = shlex.split(second.removeprefix("'''exec' "))
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    return words or ["?"]


# What posix_spawn does to the program's streams.
_STREAMS: dict[Output, list[tuple[Any, ...]]] = {
    Output.SHOWN: [],
    Output.ERRORS: [(os.POSIX_SPAWN_DUP2, 2, 1)],
    Output.HIDDEN: [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)],
}


def _spawn_and_wait(
    program: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    output: Output,
    on_signal: Callable[[int], None] | None,
) -> int:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*SIGNALS, signal.SIGCHLD})
    # Where our parent ignores the end of its children, ours would leave neither a signal nor a status.
    on_child = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        # Python ignores these two; the command should not. What else our parent has us ignore, as a shell does for what
        # runs in the background, the command ignores too.
        defaults = [signal.SIGPIPE, signal.SIGXFSZ]
        child = os.posix_spawn(
            program,
            list(command),
            dict(environment),
            file_actions=_STREAMS[output],
            setsigmask=before,
            setsigdef=defaults,
        )
        while True:
            info = signal.sigwaitinfo({*SIGNALS, signal.SIGCHLD})
            if info.si_signo != signal.SIGCHLD:
                if info.si_code != SENT_BY_KERNEL:
                    os.kill(child, info.si_signo)
                if on_signal is not None and signal.getsignal(info.si_signo) != signal.SIG_IGN:
                    on_signal(info.si_signo)
                continue
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
    finally:
        signal.signal(signal.SIGCHLD, on_child)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
