"""The command ``frugal-alloc``."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn

from .. import __version__
from .._arguments import Parser, refuse

INTERRUPTED = 130

_DESCRIPTION = "Takes the place of PyTorch's CUDA caching allocator; says where GPU memory goes."
_FIRST = """\
first steps:
  frugal-alloc doctor        # what is here, what works, what is missing
  frugal-alloc run train.py  # the program, unchanged, with the allocator on
  frugal-alloc top           # who holds the GPU's memory now, and what leaks
  frugal-alloc fit --gpu "RTX 4090" -- python train.py  # does it fit that GPU?
"""


class _Refused(Exception):
    """The command cannot be carried out; the message says why and what to do."""


def _complain(command: str, message: str) -> int:
    return refuse(f"frugal-alloc {command}", message)


@contextlib.contextmanager
def _refusing(kind: type[Exception] | tuple[type[Exception], ...]) -> Iterator[None]:
    """An error of this kind, whose message is for people, refuses the command."""
    try:
        yield
    except kind as error:
        raise _Refused(str(error)) from None


def main(arguments: list[str] | None = None) -> NoReturn:
    """Carries out a command line, sys.argv's by default, and exits with its status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    command = arguments[0] if arguments else ""
    try:
        _check_platform(arguments)
        # What follows a program's name is the program's: argparse must not look at it.
        if command == "run":
            status = _run(arguments[1:])
        elif command == "simulate":
            status = _simulate(arguments[1:])
        elif command == "fit":
            status = _with_whole_output(command, lambda: _fit(arguments[1:]))
        elif command == "check":
            status = _with_whole_output(command, lambda: _check(arguments[1:]))
        elif command == "top":
            status = _with_whole_output(command, lambda: _top(arguments[1:]))
        else:
            status = _with_whole_output(command, lambda: _carry_out(arguments))
    except _Refused as error:
        status = _complain(command, str(error))
    sys.exit(status)


def _carry_out(arguments: list[str]) -> int:
    try:
        options = _parser().parse_args(arguments)
    except SystemExit as ended:  # --help and wrong arguments
        return ended.code  # type: ignore[return-value]
    return options.carry_out(options)


def _with_whole_output(command: str, carry_out: Callable[[], int]) -> int:
    """The status of a command of ours; output that is lost, on a full disk, makes it fail.

    It is flushed here, since the interpreter would do so with a traceback and a status of its own.
    """
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        status = carry_out()
        sys.stdout.flush()
    except BrokenPipeError:
        status = 0  # whoever read has seen enough
    except OSError as error:
        what = error.filename or "the output"
        status = _complain(command, f"{what} cannot be read or written: {error.strerror or error}")
    else:
        return status
    with contextlib.suppress(OSError, ValueError):
        # What could not be written must not be tried again as the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


def _check_platform(arguments: list[str]) -> None:
    from .. import _installation

    if set(arguments[:1]) & {"-h", "--help", "--version"}:
        return
    with _refusing(_installation.MissingPart):
        _installation.check_platform()


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "frugal-alloc", description=_DESCRIPTION, epilog=_FIRST, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"frugal-alloc {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)
    # Carried out before this parser is asked; here for --help, and so that a misspelt command is told of them.
    commands.add_parser("run", help="run a program with the allocator on")
    commands.add_parser("simulate", help="run a command on a simulated GPU")
    commands.add_parser("fit", help="say whether a program fits a GPU, and what takes the memory")
    commands.add_parser("check", help="compare the GPU memory of tests with a baseline")
    commands.add_parser("top", help="show what running processes do with GPU memory")
    _add_doctor(commands)
    _add_replay(commands)
    _add_report(commands)
    _add_hook(commands)
    return parser


# --- run


def _run(arguments: list[str]) -> int:
    parser = Parser(
        "frugal-alloc run",
        usage="%(prog)s SCRIPT [ARGUMENT ...]\n       %(prog)s -m MODULE [ARGUMENT ...]\n"
        "       %(prog)s --preload COMMAND [ARGUMENT ...]",
        description="Runs a program, unchanged, with frugal_alloc in the place of PyTorch's CUDA allocator: a Python "
        "program in this Python, and every Python process that it starts; with --preload any program on PyTorch or "
        "LibTorch, and every one that it starts. FRUGAL_ALLOC_CONF says with which settings; FRUGAL_ALLOC=0 turns it "
        "off.",
    )
    option = arguments[0] if arguments and arguments[0].startswith("-") else ""
    if option in ("-h", "--help"):
        parser.parse_args([option])
    if option not in ("", "--", "-m", "--preload"):
        parser.refuse_option(option, ("--preload", "--help"))
    command = arguments[1:] if option else arguments
    if option == "--preload" and command[:1] == ["--"]:
        command = command[1:]
    if not command:
        missing = {"-m": "-m needs the name of a module", "--preload": "--preload needs a command"}
        parser.error(missing.get(option, "name the script to run"))
    return _run_preloaded(command) if option == "--preload" else _run_python(command, option == "-m")


def _run_python(command: list[str], is_module: bool) -> int:
    from .. import _settings
    from . import run_program

    program = command[0] if is_module else run_program.find(command[0])
    try:
        run_program.check(program, is_module)
        if not _settings.is_turned_off():
            _enable()
            run_program.enable_in_children()
        (run_program.run_module if is_module else run_program.run_script)(program, command[1:])
    except run_program.NoProgram as error:
        raise _Refused(str(error)) from None
    return 0


def _run_preloaded(command: list[str]) -> NoReturn:
    from .. import _settings
    from . import run_program

    with _refusing(run_program.NoProgram):
        run_program.become(command, _settings.is_turned_off())


def _enable() -> None:
    import frugal_alloc

    try:
        frugal_alloc.enable()
    except frugal_alloc.FrugalAllocError as error:
        reason = str(error).strip().split("\n")[0]
        raise _Refused(f"the allocator cannot be used: {reason} (frugal-alloc doctor tells more)") from None


# --- preload and the hook


def _add_hook(commands: argparse._SubParsersAction) -> None:
    preload = commands.add_parser(
        "preload",
        help="print the path of the library for LD_PRELOAD",
        description="Prints the path of a library that puts the allocator into any program on PyTorch or LibTorch: "
        "LD_PRELOAD=$(frugal-alloc preload) ./program. frugal-alloc run --preload ./program does the same.",
    )
    preload.set_defaults(carry_out=_preload)
    install = commands.add_parser(
        "install-hook",
        help="let FRUGAL_ALLOC=1 enable the allocator in every program of this Python",
        description="Adds a line to this Python's site-packages: programs that are started with FRUGAL_ALLOC=1, and "
        "the Python processes that they start, enable the allocator when they import torch. All others are as before.",
    )
    install.set_defaults(carry_out=_install_hook)
    remove = commands.add_parser("remove-hook", help="undo install-hook", description="Undoes install-hook.")
    remove.set_defaults(carry_out=_remove_hook)


def _preload(options: argparse.Namespace) -> int:
    from . import run_program

    with _refusing(run_program.NoProgram):
        print(run_program.preloaded_library())
    return 0


def _install_hook(options: argparse.Namespace) -> int:
    from . import startup_hook

    with _refusing(startup_hook.HookError):
        path = startup_hook.install()
    print(f"wrote {path}\nprograms of {sys.executable} started with FRUGAL_ALLOC=1 use the allocator from now on")
    return 0


def _remove_hook(options: argparse.Namespace) -> int:
    from . import startup_hook

    with _refusing(startup_hook.HookError):
        path = startup_hook.remove()
    print(f"removed {path}" if path else f"there is none: {startup_hook.path()}")
    return 0


# --- simulate


def _simulate(arguments: list[str]) -> int:
    parser = Parser(
        "frugal-alloc simulate",
        usage="%(prog)s --gpu NAME|--memory SIZE [--gpus N] [--values none|cpu] [--node NAME] [--driver-costs FILE] "
        "[--driver-time] [--full] [--unified] -- COMMAND [ARGUMENT ...]",
        description="Runs a command on a simulated GPU: memory, streams and events are modelled, kernels compute "
        "nothing. Its exit status is the command's.",
    )
    from .._simulation import gpu_choice, simulated_driver, simulated_gpu

    gpu_choice.add_options(parser)
    parser.add_argument("--gpus", metavar="N", type=int, default=1, help="number of GPUs (default 1)")
    parser.add_argument(
        "--values",
        choices=("none", "cpu"),
        default="none",
        help="cpu: operators of a Python program compute their values, on the CPU; none (default): only small integers "
        "and booleans have values, so control flow that depends on others is not faithful",
    )
    simulated_driver.add_options(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:end])
    command = options.command + (arguments[end:] if options.command else arguments[end + 1 :])
    if not command:
        parser.error("name the command to run, after --")
    try:
        memory, model = gpu_choice.choose(options)
        base = {**os.environ, **model, **simulated_driver.settings(options)}
    except (gpu_choice.ChoiceError, simulated_driver.DriverOptionError) as error:
        parser.error(str(error))
    try:
        return simulated_gpu.run(command, memory=memory, gpus=options.gpus, values=options.values, base=base)
    except KeyboardInterrupt:
        return INTERRUPTED


# --- check


def _check(arguments: list[str]) -> int:
    from . import check

    return check.main(arguments)


# --- fit


def _fit(arguments: list[str]) -> int:
    from .. import _installation
    from .._simulation import simulated_gpu
    from . import fit

    try:
        with _refusing((simulated_gpu.SimulationError, _installation.MissingPart, fit.NotFollowed)):
            return fit.main(arguments)
    except SystemExit as ended:  # --help and wrong arguments
        return ended.code  # type: ignore[return-value]
    except KeyboardInterrupt:
        return INTERRUPTED


# --- top


def _top(arguments: list[str]) -> int:
    from . import top

    try:
        return top.main(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


# --- doctor


def _add_doctor(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "doctor",
        help="say what is here, what works and what is missing",
        description="Looks at Python, torch, the driver, the GPU and this package, and says whether each will do. With "
        "--gpu it measures instead, for two minutes, what the driver does, and says whether that is safe: exit status "
        "0 if so, 1 if not.",
    )
    parser.add_argument("--gpu", action="store_true", help="measure the GPU's driver and say whether it is safe here")
    parser.add_argument("--json", action="store_true", help="print a JSON object, as a bug report needs it")
    parser.add_argument(
        "--keep", metavar="FILE", help="with --gpu: write what calls cost here, for the setting driver_costs:FILE"
    )
    parser.set_defaults(carry_out=lambda options: _doctor(parser, options))


def _doctor(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if not options.gpu:
        if options.keep is not None:
            parser.error("--keep goes with --gpu")
        from . import doctor

        return doctor.main(options.json)
    from . import doctor_gpu

    with _refusing(doctor_gpu.Refused):
        return doctor_gpu.main(options.json, options.keep)


# --- replay


def _add_replay(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "replay",
        help="play recorded allocation histories through several allocators",
        description="Plays recorded allocation histories through allocators on a simulated GPU, which it starts "
        "itself, or on a real one, and compares how much memory and driver time each takes.",
    )
    parser.add_argument(
        "histories",
        metavar="HISTORY",
        nargs="+",
        help="file of torch.cuda.memory._dump_snapshot, Kineto trace or list of events (plain, .xz or .gz), or the "
        "name of one that comes with the project",
    )
    parser.add_argument(
        "--allocator",
        metavar="NAME,...",
        default="frugal,native,expandable",
        help="which to compare: frugal, native, expandable (native with expandable_segments); default all",
    )
    parser.add_argument(
        "--capacity",
        metavar="SIZE|min",
        help="memory of the GPU (default 200GiB); min: also find the smallest in which the history completes",
    )
    parser.add_argument(
        "--device",
        choices=("simulated", "real"),
        default="simulated",
        help="real: the first visible GPU and its driver's times; a capacity is a limit there (default simulated)",
    )
    parser.add_argument("--json", action="store_true", help="print a list of objects instead of a table")
    parser.set_defaults(carry_out=lambda options: _replay(parser, options))


def _replay(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from .. import _installation
    from .._replay import history_files, replays, table
    from .._simulation import simulated_gpu
    from . import progress

    allocators = list(dict.fromkeys(options.allocator.split(",")))
    for name in allocators:
        if name not in replays.ALLOCATORS:
            parser.error(f"unknown allocator {name!r}; choose from {', '.join(replays.ALLOCATORS)}")
    capacity = replays.DEFAULT_CAPACITY
    if options.capacity not in (None, "min"):
        try:
            capacity = simulated_gpu.parse_size(options.capacity)
        except ValueError as error:
            parser.error(f"--capacity: {error}")
    try:
        histories = [history_files.read(history_files.find(name)) for name in options.histories]
        replayer = replays.Replayer(options.device)
        with progress.progress("replay", len(histories) * len(allocators)) as advance:
            measurements = replays.measure_all(
                replayer, histories, allocators, capacity, options.capacity == "min", advance
            )
    except (history_files.HistoryError, _installation.MissingPart, simulated_gpu.SimulationError) as error:
        raise _Refused(str(error)) from None
    except replays.ReplayError as error:
        _complain("replay", str(error))
        return 1
    except KeyboardInterrupt:
        print("frugal-alloc replay: interrupted", file=sys.stderr)
        return INTERRUPTED
    if options.json:
        print(replays.to_json(measurements))
    else:
        table.print_table(measurements)
    return 0


# --- report


def _add_report(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "report",
        help="show what a run reported about its memory",
        description="Prints a report that a run has written (setting report_dir, or frugal_alloc.report().to_json()); "
        "the files of several ranks become one. TensorFlow's logs with a dump of its BFC allocator, or with memory "
        "printed at each step, are read, too.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="a report, or one of each rank of a run")
    parser.add_argument("--compare", metavar="OTHER", nargs="+", help="print what changed from FILE to this run")
    parser.add_argument("--html", metavar="OUT", help="write FILE's report as a page to this file")
    parser.add_argument(
        "--memory-viz", metavar="OUT", help="write FILE's memory as a pickle for pytorch.org/memory_viz"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON: the report, joined and checked, or the changes"
    )
    parser.set_defaults(carry_out=_report)


def _report(options: argparse.Namespace) -> int:
    from . import show_report

    with _refusing(show_report.ReportRefused):
        show_report.show(options.files, options.compare, options.html, options.memory_viz, options.json)
    return 0
