"""``frugal-alloc fit``: its command line."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import re
import sys
from collections.abc import Callable, Sequence

from simulated_gpu import Output, gpu_choice, gpu_models, launcher
from simulated_gpu.gpu_models import GpuModel

from .._common import whole_files
from .._common.arguments import Parser
from .._common.messages import format_bytes
from .._planning import followed
from .._planning.fit import fitting, kernels, search, text, wording
from .._planning.fit.fitting import Setup
from .._planning.fit.verdict import Gpu, Verdict, to_json
from . import options as shared
from . import progress

FITS, DOES_NOT_FIT = 0, 1
# Enough to see whether memory grows.
_DEFAULT_STEPS = 8
# More than the largest GPU of the table has.
_MOST_GIB = 512


def add(parser: Parser) -> None:
    parser.usage = "%(prog)s --gpu NAME [OPTION ...] -- COMMAND [ARGUMENT ...]"
    parser.description = (
        "Runs some steps of a program on a simulated GPU and says whether it fits, what takes the memory, and what to "
        "change first. Exit status 0: it fits; 1: it does not, or grows until it does not; the program's own, if it "
        "fails by itself."
    )
    gpu = gpu_choice.add_gpu(parser)
    gpu_choice.add_gpus(gpu)
    gpu.add_argument("--find-gpu", action="store_true", help="instead: find the smallest GPU on sale that it fits")
    program = parser.add_argument_group("program")
    program.add_argument(
        "--steps",
        metavar="N",
        type=int,
        help="end the program after so many steps of its optimizer, or calls of its model where it has none (default "
        f"{_DEFAULT_STEPS} steps; 0: let it run to its end)",
    )
    shared.add_allocator(program, "native", ", as the environment or the program sets it")
    gpu_choice.add_values(program, "none")
    program.add_argument(
        "--longest", action="store_true", help="DataLoaders give the longest batches of an epoch first, not in turn"
    )
    program.add_argument(
        "--find-batch",
        metavar="ARG=8..256",
        nargs="?",
        const="",
        help="find the largest value of this argument that fits",
    )
    program.add_argument("--strict", action="store_true", help="what is not simulated ends the program")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON; the program's output goes to standard error")
    output.add_argument("--html", metavar="FILE", help="write a page with pictures")
    # The argument of the program that is looked for: --batch-size=8..256.
    parser.takes_dashes = ("--find-batch",)
    parser.add_command()


def carry_out(options: argparse.Namespace) -> int:
    """Returns 0: it fits; 1: it does not, or grows until it does not; 2: wrong arguments; 128 + n: signal n came; else
    the program's own status.

    Raises:
        SimulationError, MissingPart: the simulated GPU cannot be had, or the program not be started.
        NotFollowed: nothing can be said of it.
        OSError: the page cannot be written.
    """
    _check(options)
    gpu_choice.check_words(options)
    verdicts = _judge(options.command, options)
    _tell(verdicts, options)
    return _status(verdicts)


def _check(options: argparse.Namespace) -> None:
    given = [name for name in ("gpu", "memory", "find_gpu") if getattr(options, name)]
    if "find_gpu" in given and len(given) > 1:
        options.error("--find-gpu looks for the GPU itself; leave --gpu and --memory out")
    if not given:
        options.error('say on which GPU: --gpu "RTX 4090", --memory 24GiB, or --find-gpu')
    if options.find_batch is not None and (options.find_gpu or len(options.allocator) > 1):
        options.error("--find-batch goes with one GPU and one allocator")
    if options.find_gpu and len(options.allocator) > 1:
        options.error("--find-gpu goes with one allocator")
    settings = next(filter(None, map(os.environ.get, followed.SETTINGS)), "")
    if "cudaMallocAsync" in settings:
        options.error(
            "cudaMallocAsync cannot be followed; leave backend:cudaMallocAsync out of PYTORCH_CUDA_ALLOC_CONF"
        )
    if options.steps is not None and options.steps < 0:
        options.error(f"--steps {options.steps} is not possible; give a number from 1 on, or 0 for all")


def _check_memory(options: argparse.Namespace, gpu: Gpu) -> None:
    """A size without a unit is in bytes, and hardly ever meant to be."""
    text = options.memory
    if gpu.memory_bytes > gpu.context_bytes or not re.fullmatch(gpu_choice.BARE_NUMBER, text or ""):
        return
    number = float(text)
    units = (unit for unit, most in (("GiB", _MOST_GIB), ("MiB", _MOST_GIB << 10)) if number <= most)
    meant = next((f"did you mean --memory {text}{unit}?" for unit in units), "write its unit: 16GiB, 512MiB")
    options.error(
        f"--memory {text} is {format_bytes(gpu.memory_bytes)}, and a context alone takes "
        f"{format_bytes(gpu.context_bytes)}; {meant}"
    )


def _judge(command: Sequence[str], options: argparse.Namespace) -> list[Verdict]:
    """
    Raises:
        ChoiceError, SearchError: an argument is wrong.
    """
    # What the program prints is the same each time, so the first run's is enough.
    outputs = itertools.chain([Output.ERRORS if options.json else Output.SHOWN], itertools.repeat(Output.HIDDEN))

    def fit(setup: Setup, words: Sequence[str], finds_need: bool = False) -> Verdict:
        with progress.progress(f"fit {setup.gpu.name}", setup.steps or 1) as advance:
            return fitting.fit(words, setup, _stepwise(advance), output=next(outputs), finds_need=finds_need)

    if options.find_gpu:
        return [_smallest([model for model in gpu_models.models() if model.is_for_sale], options, fit)]
    setup = _setup(options, options.gpu)
    if options.find_batch is not None:
        argument = search.Argument.parse(options.find_batch, command)
        verdict, _ = search.largest(argument, lambda value: fit(setup, argument.put(command, value)))
        return [verdict]
    verdicts = [fit(setup, command, finds_need=True)]
    # The program's own may be another than the first.
    others = [name for name in options.allocator[1:] if name != verdicts[0].allocator]
    verdicts += [fit(dataclasses.replace(setup, allocator=name), command, finds_need=True) for name in others]
    return verdicts


def _smallest(models: list[GpuModel], options: argparse.Namespace, fit: Callable[..., Verdict]) -> Verdict:
    names = [model.name for model in sorted(models, key=lambda model: model.memory_bytes)]
    try:
        return search.smallest(names, lambda name: fit(_setup(options, name), options.command))[0]
    except fitting.NoKernels as refused:
        left = [model for model in models if kernels.are_for(refused.built_for, model.capability)]
        if not left:
            raise
        return _smallest(left, options, fit)


def _stepwise(advance: Callable[[str], None]) -> Callable[[int], None]:
    shown = 0

    def steps_ended(steps: int) -> None:
        nonlocal shown
        while shown < steps:
            shown += 1
            advance(f"step {shown}")

    return steps_ended


def _setup(options: argparse.Namespace, name: str | None) -> Setup:
    """
    Raises:
        ChoiceError: there is no such GPU.
    """
    memory, machine = gpu_choice.choose(argparse.Namespace(**{**vars(options), "gpu": name}))
    context = int(machine.get(gpu_choice.CONTEXT, launcher.DRIVER_MEMORY))
    if name is not None:
        model = gpu_models.find(name)
        source = "" if options.memory else model.sources["memory_bytes"]
        context_source = model.sources["context_bytes"] if gpu_choice.CONTEXT in machine else ""
        gpu = Gpu(model.name, memory, context, source, context_source)
        capability = model.capability
    else:
        gpu, capability = Gpu("a GPU", memory, context, ""), ""
    _check_memory(options, gpu)
    steps = _DEFAULT_STEPS if options.steps is None else options.steps or None
    return Setup(
        gpu=gpu,
        gpus=options.gpus,
        machine=machine | {"FRUGAL_SIM_WORKSPACES": "modelled"},
        allocator=options.allocator[0],
        values=options.values,
        steps=steps,
        calls=options.steps or None,
        is_strict=options.strict,
        longest=options.longest,
        capability=capability,
    )


def _tell(verdicts: Sequence[Verdict], options: argparse.Namespace) -> None:
    if options.html:
        from .._planning.fit import page

        whole_files.write(os.path.abspath(options.html), page.render(verdicts).encode())
    if options.json:
        print(to_json(verdicts))
    else:
        text.write(verdicts, sys.stdout)
    if note := wording.status_note(wording.of_terminal_and_page(verdicts[0])):
        sys.stdout.flush()
        print(f"frugal-alloc fit: {note}", file=sys.stderr)


def _status(verdicts: Sequence[Verdict]) -> int:
    """What the first line says: of several allocators, the first."""
    verdict = verdicts[0]
    if verdict.fits is None:
        return verdict.exit_status or DOES_NOT_FIT
    return FITS if verdict.is_good else DOES_NOT_FIT
