"""The launcher: environments, sizes, exit statuses, signals."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import simulated_gpu
import torch
from checkout import package_first
from simulated_gpu import SimulationError, environment, launcher, parse_size

GIB = 1 << 30
ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
RUN = """
import sys
import simulated_gpu
sys.exit(simulated_gpu.run(sys.argv[2:], memory=1 << 30, values=sys.argv[1]))
"""
# As a shell has a job in the background start, and some runners all that they start.
IGNORING = """
import os, signal, sys
signal.signal(getattr(signal, sys.argv[1]), signal.SIG_IGN)
os.execv(sys.argv[2], sys.argv[2:])
"""


def launch(*command: str, values: str = "none", ignored: str = "", **options) -> subprocess.CompletedProcess:
    line = [PYTHON, "-c", RUN, values, *command]
    if ignored:
        line = [PYTHON, "-c", IGNORING, ignored, *line]
    base = package_first(dict(os.environ)) | options.pop("env", {})
    return subprocess.run(line, env=base, capture_output=True, text=True, timeout=600, **options)


# --- Sizes.


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16GiB", 16 * GIB),
        ("16G", 16 * GIB),
        ("16g", 16 * GIB),
        ("1.5 GiB", 3 * GIB // 2),
        ("512MiB", GIB // 2),
        ("1073741824", GIB),
        ("1073741824B", GIB),
    ],
)
def test_size_is_read_in_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "0", "-1GiB", "16 GiX", "1e9", "16GiBs", "999999TiB", "\u0661GiB", "0.1"])
def test_what_is_no_size_gets_one_line_that_shows_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_size(text)
    assert repr(text) in str(raised.value)
    assert "16GiB" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["16GB", "16gb", "1.5 GB", "512MB"])
def test_a_size_that_may_be_of_powers_of_1000_or_of_1024_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"has two meanings.*; write [\d.]+[GM]iB"):
        parse_size(text)


# --- Environments.


def test_what_the_environment_preloads_and_imports_stays_behind_ours() -> None:
    base = {"LD_PRELOAD": "libmine.so", "PYTHONPATH": "/mine", "LD_LIBRARY_PATH": "/lib/mine", "OTHER": "kept"}
    result = environment(GIB, base=base)
    assert result["LD_PRELOAD"].split(":")[-1] == "libmine.so"
    assert result["LD_PRELOAD"].split(":")[0] == "libcudart.so.13"
    assert result["PYTHONPATH"].split(":") == [str(launcher.STARTUP), "/mine"]
    assert result["LD_LIBRARY_PATH"].split(":") == [str(simulated_gpu.libraries()), "/lib/mine"]
    assert result["OTHER"] == "kept"


def test_environment_of_an_environment_is_the_same() -> None:
    once = environment(GIB, values="cpu", base={"PATH": "/bin"})
    assert environment(GIB, values="cpu", base=once) == once


def test_choice_among_real_gpus_is_not_handed_on() -> None:
    base = {"CUDA_VISIBLE_DEVICES": "3", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
    assert not set(environment(GIB, base=base)) & set(base)


def test_without_memory_behind_the_addresses_no_python_hook_is_installed() -> None:
    assert "PYTHONPATH" not in environment(GIB, backing="none", base={})


@pytest.mark.parametrize(
    "asked",
    [
        {"gpus": 0},
        {"gpus": 17},
        {"memory": 512 << 20},
        {"values": "gpu"},
        {"backing": "disk"},
        {"values": "cpu", "backing": "none"},
    ],
)
def test_impossible_gpu_is_refused_in_one_line(asked: dict) -> None:
    with pytest.raises(SimulationError) as raised:
        environment(**{"memory": GIB, "base": {}} | asked)
    assert "\n" not in str(raised.value)


def test_missing_libraries_are_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRUGAL_SIM_LIBRARIES", str(tmp_path))
    with pytest.raises(SimulationError, match=r"has no libcudart\.so\.13; run tools/setup"):
        environment(GIB)


def test_documented_variables_are_those_that_the_simulated_gpu_reads() -> None:
    page, source = (
        (ROOT / path).read_text() for path in ("docs/simulated_gpu_inside.md", "simulated_gpu/machine/configuration.cc")
    )
    documented = re.findall(r"^\| `(FRUGAL_SIM_\w+)`", page, re.MULTILINE)
    assert sorted(documented) == sorted(set(re.findall(r"FRUGAL_SIM_\w+", source)) - {"FRUGAL_SIM_VALUES"})


# --- Commands.


@pytest.mark.parametrize(("shell", "status"), [("exit 7", 7), ("kill -KILL $$", 137), ("kill -INT $$", 130)])
def test_status_is_the_commands_as_a_shell_has_it(shell: str, status: int) -> None:
    assert launch("sh", "-c", shell).returncode == status


def test_that_values_are_not_computed_is_said_once_on_stderr() -> None:
    nested = f'{PYTHON} -c "pass"; {PYTHON} -c "pass"; echo out'
    done = launch("sh", "-c", nested)
    assert done.stdout == "out\n"
    assert done.stderr.count("\n") == done.stderr.count("values are not computed") == 1


def test_what_cannot_compute_values_is_not_told_to() -> None:
    assert "--values cpu" in launch(PYTHON, "-c", "pass").stderr
    assert "--values cpu" not in launch("sh", "-c", "true").stderr


def test_command_inherits_no_blocked_or_ignored_signal() -> None:
    code = "import signal; print(signal.pthread_sigmask(0, []), int(signal.getsignal(signal.SIGTERM)))"
    assert launch(PYTHON, "-c", code).stdout == f"set() {int(signal.SIG_DFL)}\n"
    assert launch("sh", "-c", "kill -PIPE $$").returncode == 128 + signal.SIGPIPE


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_command_of_a_launcher_that_ignores_a_signal_ignores_it_too(name: str) -> None:
    code = f"import signal; print(signal.getsignal(signal.{name}) == signal.SIG_IGN)"
    assert launch(PYTHON, "-c", code, ignored=name).stdout == "True\n"


def test_end_of_the_command_is_seen_where_the_ends_of_children_are_ignored() -> None:
    code = "import subprocess, sys; sys.exit(subprocess.run(['sh', '-c', 'exit 7']).returncode)"
    assert launch(PYTHON, "-c", code, ignored="SIGCHLD").returncode == 7


WAITING = "import time; print('up', flush=True); time.sleep(600)"
CATCHING = f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(5)); {WAITING}"


@pytest.mark.parametrize(
    ("code", "sent", "status"),
    [(WAITING, signal.SIGINT, 130), (WAITING, signal.SIGTERM, 143), (CATCHING, signal.SIGTERM, 5)],
)
def test_signal_goes_on_to_the_command(code: str, sent: signal.Signals, status: int) -> None:
    line = [PYTHON, "-c", RUN, "none", PYTHON, "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(line, env=package_first(dict(os.environ)), text=True, **pipes) as launcher:
        assert launcher.stdout.readline() == "up\n"
        launcher.send_signal(sent)
        assert launcher.wait(timeout=600) == status


def test_key_on_the_terminal_reaches_the_command_once() -> None:
    counting = (
        "import os, signal, sys\n"
        "caught = []\n"
        # Not print, which the signal may have interrupted.
        "signal.signal(signal.SIGINT, lambda *_: (caught.append(1), os.write(1, b'caught')))\n"
        "print('up', flush=True)\n"
        "sys.stdin.readline()\n"
        "sys.exit(40 + len(caught))\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        os.execve(PYTHON, [PYTHON, "-c", RUN, "none", PYTHON, "-c", counting], package_first(dict(os.environ)))
    seen = b""
    while b"up" not in seen:
        seen += os.read(terminal, 1024)
    os.write(terminal, b"\x03")
    while b"caught" not in seen:
        seen += os.read(terminal, 1024)
    os.write(terminal, b"\n")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 41
    os.close(terminal)


@pytest.mark.parametrize("command", [["no-such-command"], ["/dev/null"], ["/"], [""]])
def test_command_that_cannot_be_run_gets_one_line_and_status_2(command: list[str]) -> None:
    done = launch(*command)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_file_that_is_no_program_gets_status_2(tmp_path: Path) -> None:
    file = tmp_path / "text"
    file.write_text("not a program")
    file.chmod(0o755)
    done = launch(str(file))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(f"simulated_gpu: {file} cannot be run: ")


# --- Values are for Python programs.


@pytest.mark.parametrize(
    "first_lines",
    [
        "#!/usr/bin/env python3",
        "#!/usr/bin/python3 -s",
        "#!/usr/bin/env -S python3.11 -u",
        '#!/bin/sh\n\'\'\'exec\' "/a b/python" "$0" "$@"',
    ],
)
def test_python_script_can_have_values(first_lines: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(first_lines + "\n")
    assert launcher._obstacle_to_values(str(script), [str(script)]) == ""


@pytest.mark.parametrize("content", [b"#!/bin/sh\n", b"#!/usr/bin/env bash\n", b"#!\n", b"\x7fELF", b""])
def test_other_program_that_asks_for_values_is_told_no(content: bytes, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    assert "Python programs only" in launcher._obstacle_to_values(str(program), [str(program)])


def test_program_that_is_told_no_is_not_run() -> None:
    done = launch("sh", "-c", "echo ran", values="cpu")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-sE"])
def test_python_without_the_hook_is_told_no(option: str) -> None:
    assert "leaves out the hook" in launcher._obstacle_to_values(PYTHON, ["python", option, "script.py"])


@pytest.mark.parametrize("arguments", [["-u", "s.py", "-E"], ["-m", "a", "-I"], ["-c", "pass", "-S"], ["-XIE"], []])
def test_options_of_the_script_are_its_own(arguments: list[str]) -> None:
    assert launcher._obstacle_to_values(PYTHON, ["python", *arguments]) == ""


# --- Alone.


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A Python that has torch and this package, and no frugal_alloc; and its environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    for path in Path(torch.__file__).parents[1].iterdir():
        if "frugal_alloc" not in path.name:
            (packages / path.name).symlink_to(path)
    return folder / "bin" / "python", {"PATH": str(folder / "bin"), "PYTHONPATH": str(launcher.HERE.parent)}


@pytest.mark.parametrize("values", ["cpu", "none"])
def test_it_needs_nothing_of_frugal_alloc(stranger: tuple[Path, dict[str, str]], values: str) -> None:
    python, base = stranger
    program = (
        "import importlib.util as i, torch; print(i.find_spec('frugal_alloc'), torch.arange(4, device='cuda').sum())"
    )
    line = [python, "-m", "simulated_gpu", "--gpu", "L4", "--values", values, "--", "python", "-c", program]
    done = subprocess.run(line, env=base, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "None tensor(6, device='cuda:0')\n"), done.stderr
    assert done.stderr.startswith("simulated_gpu: running on a simulated NVIDIA L4 of 2")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--memory 4GiB python", "unrecognized arguments: python"),
        ("--memory 4GiB --", "name the command to run, after --"),
        ("--memory 4GB -- python", "two meanings"),
        ("-- python", "one of these is required: --memory SIZE, --gpu NAME"),
        ("--memory 16 GiB -- python", "unrecognized arguments: GiB"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_said(line: str, said: str) -> None:
    done = subprocess.run([PYTHON, "-m", "simulated_gpu", *line.split()], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[-1]


# --- The hook.


def test_program_that_does_not_import_torch_goes_without() -> None:
    done = launch(PYTHON, "-c", "import sys, json; print('torch' in sys.modules)", values="cpu")
    assert done.stdout == "False\n"


@pytest.mark.parametrize("values", ["cpu", "none"])
def test_looking_for_torch_before_it_is_imported_takes_nothing_away(values: str) -> None:
    code = "import sys, importlib.util as i; i.find_spec('torch'); import torch; print(sorted(sys.modules))"
    done = launch(PYTHON, "-c", code, values=values)
    companion = {"cpu": "frugal_simulated_values.every_operator", "none": "frugal_simulated_values.plausible"}[values]
    assert companion in done.stdout, done.stderr


def test_users_own_sitecustomize_is_still_imported(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = __file__")
    path = os.pathsep.join([str(tmp_path), str(launcher.HERE.parent)])
    done = launch(
        PYTHON, "-c", "import sys, sitecustomize; print(sys.mine, sitecustomize.__file__)", env={"PYTHONPATH": path}
    )
    assert done.stdout == f"{tmp_path}/sitecustomize.py {tmp_path}/sitecustomize.py\n"


def test_program_without_torch_gets_pythons_own_error() -> None:
    done = launch(PYTHON, "-c", "import sys; sys.path = []; import torch", values="cpu")
    assert done.returncode == 1
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'torch'\n")
