"""``frugal-alloc fit``: its command line."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import re
import sys
from collections.abc import Callable, Sequence

from ..._common import whole_files
from ..._common.arguments import Parser
from ..._common.messages import format_bytes
from ..._simulation import followed, gpu_choice, gpu_models, simulated_gpu
from ..._simulation.simulated_gpu import Output
from .. import progress
from . import fitting, search, text, wording
from .fitting import Setup
from .verdict import Gpu, Verdict, to_json

FITS, DOES_NOT_FIT = 0, 1
ALLOCATORS = ("native", "expandable", "frugal")
# Enough to see whether memory grows.
_DEFAULT_STEPS = 8
# More than the largest GPU of the table has.
_MOST_GIB = 512
_BARE_NUMBER = r"[\d.]+"


def add(parser: Parser) -> None:
    parser.usage = (
        "%(prog)s [--gpu NAME | --memory SIZE] [--gpus N] [--steps N] [--allocator native|expandable|frugal|all] "
        "[--longest] [--values none|cpu] [--find-batch ARG=8..256 | --find-gpu] [--strict] [--json] [--html FILE] "
        "-- COMMAND [ARGUMENT ...]"
    )
    parser.description = (
        "Runs some steps of a program on a simulated GPU and says whether it fits, what takes the memory, and what to "
        "change first. Exit status 0: it fits; 1: it does not, or grows until it does not; the program's own, if it "
        "fails by itself."
    )
    gpu_choice.add_options(parser)
    parser.add_argument("--gpus", metavar="N", type=int, default=1, help="number of GPUs (default 1)")
    parser.add_argument(
        "--steps",
        metavar="N",
        type=int,
        help="end the program after so many steps of its optimizer, or calls of its model where it has none (default "
        f"{_DEFAULT_STEPS} steps; 0: let it run to its end)",
    )
    parser.add_argument(
        "--allocator",
        choices=(*ALLOCATORS, "all"),
        default="native",
        help="native (default): PyTorch's, as the environment sets it; expandable: with expandable segments; all: one "
        "after the other",
    )
    parser.add_argument(
        "--longest", action="store_true", help="DataLoaders give the longest batches of an epoch first, not in turn"
    )
    parser.add_argument(
        "--values",
        choices=("none", "cpu"),
        default="none",
        help="cpu: compute all values, as shapes may depend on them",
    )
    parser.add_argument(
        "--find-batch",
        metavar="ARG=8..256",
        nargs="?",
        const="",
        help="find the largest value of this argument that fits",
    )
    parser.add_argument("--find-gpu", action="store_true", help="find the smallest GPU on sale that it fits")
    parser.add_argument("--strict", action="store_true", help="what is not simulated ends the program")
    parser.add_argument("--json", action="store_true", help="print JSON; the program's output goes to standard error")
    parser.add_argument("--html", metavar="FILE", help="write a page with pictures")
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
    try:
        _check(options)
        _check_words(options)
        verdicts = _judge(options.command, options)
    except (gpu_choice.ChoiceError, search.SearchError) as error:
        options.error(str(error))
    _tell(verdicts, options)
    return _status(verdicts)


def _check(options: argparse.Namespace) -> None:
    given = [name for name in ("gpu", "memory", "find_gpu") if getattr(options, name)]
    if "find_gpu" in given and len(given) > 1:
        options.error("--find-gpu looks for the GPU itself; leave --gpu and --memory out")
    if not given:
        options.error('say on which GPU: --gpu "RTX 4090", --memory 24GiB, or --find-gpu')
    if options.find_batch is not None and (options.find_gpu or options.allocator == "all"):
        options.error("--find-batch goes with one GPU and one allocator")
    if options.find_gpu and options.allocator == "all":
        options.error("--find-gpu goes with one allocator")
    if not 1 <= options.gpus <= simulated_gpu.MOST_GPUS:
        options.error(f"--gpus {options.gpus} is not possible; ask for 1 to {simulated_gpu.MOST_GPUS}")
    settings = next(filter(None, map(os.environ.get, followed.SETTINGS)), "")
    if "cudaMallocAsync" in settings:
        options.error(
            "cudaMallocAsync cannot be followed; leave backend:cudaMallocAsync out of PYTORCH_CUDA_ALLOC_CONF"
        )
    if options.steps is not None and options.steps < 0:
        options.error(f"--steps {options.steps} is not possible; give a number from 1 on, or 0 for all")


def _check_words(options: argparse.Namespace) -> None:
    """What has fallen into two words: the second is the first of the command, before ``--``."""
    second = options.command[0] if options.command else ""
    is_bare = re.fullmatch(_BARE_NUMBER, options.memory or "") is not None
    if is_bare and re.fullmatch(r"[kmgt](i?b)?", second, re.IGNORECASE):
        options.error(
            f"--memory {options.memory} {second} is two words; write it without the space: "
            f"--memory {options.memory}{second}"
        )
    name = f"{options.gpu} {second}"
    if options.gpu and second and _is_gpu(name) and not _is_gpu(options.gpu):
        options.error(f'--gpu {name} is two words; write it in quotes: --gpu "{name}"')


def _is_gpu(name: str) -> bool:
    try:
        gpu_models.find(name)
    except gpu_models.UnknownGpu:
        return False
    return True


def _check_memory(options: argparse.Namespace, gpu: Gpu) -> None:
    """A size without a unit is in bytes, and hardly ever meant to be."""
    text = options.memory
    if gpu.memory_bytes > gpu.context_bytes or not re.fullmatch(_BARE_NUMBER, text or ""):
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
        models = [model for model in gpu_models.models() if model.is_for_sale]
        names = [model.name for model in sorted(models, key=lambda model: model.memory_bytes)]
        verdict, _ = search.smallest(names, lambda name: fit(_setup(options, name), command))
        return [verdict]
    setup = _setup(options, options.gpu)
    if options.find_batch is not None:
        argument = search.Argument.parse(options.find_batch, command)
        verdict, _ = search.largest(argument, lambda value: fit(setup, argument.put(command, value)))
        return [verdict]
    verdicts = [fit(setup, command, finds_need=True)]
    if options.allocator == "all":
        # The program's own may be another than the first.
        others = [name for name in ALLOCATORS[1:] if name != verdicts[0].allocator]
        verdicts += [fit(dataclasses.replace(setup, allocator=name), command, finds_need=True) for name in others]
    return verdicts


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
    context = int(machine.get(gpu_choice.CONTEXT, simulated_gpu.DRIVER_MEMORY))
    if name is not None:
        model = gpu_models.find(name)
        source = "" if options.memory else model.sources["memory_bytes"]
        context_source = model.sources["context_bytes"] if gpu_choice.CONTEXT in machine else ""
        gpu = Gpu(model.name, memory, context, source, context_source)
    else:
        gpu = Gpu("a GPU", memory, context, "")
    _check_memory(options, gpu)
    steps = _DEFAULT_STEPS if options.steps is None else options.steps or None
    return Setup(
        gpu=gpu,
        gpus=options.gpus,
        machine=machine | {"FRUGAL_SIM_WORKSPACES": "modelled"},
        allocator=ALLOCATORS[0] if options.allocator == "all" else options.allocator,
        values=options.values,
        steps=steps,
        calls=options.steps or None,
        is_strict=options.strict,
        longest=options.longest,
    )


def _tell(verdicts: Sequence[Verdict], options: argparse.Namespace) -> None:
    if options.html:
        from . import page

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
