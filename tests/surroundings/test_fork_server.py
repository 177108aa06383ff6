"""A program that a server forks ends as in a process of its own, and leaves nobody behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fork_server
import pytest
import simulated_gpu

PROGRAMS = {
    "end": "import sys; print(__name__, sys.argv, sys.path[0], sys.stdin.read())",
    "error": "def f():\n    raise ValueError(3)\nf()",
    "message": "raise SystemExit('the reason')",
    "status": "raise SystemExit(7)",
    "interrupt": "raise KeyboardInterrupt",
    "signal": "import os, signal; print(1, flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "exit handlers and threads": (
        "import atexit, threading\natexit.register(print, 'last')\nthreading.Thread(target=print, args=[1]).start()"
    ),
    "closed streams": "import os; os.write(2, b'said'); os.close(1); os.close(2); os.closerange(3, 99)",
    "child": "import os, sys\nif os.fork() == 0:\n    sys.exit(3)\nprint(os.waitstatus_to_exitcode(os.wait()[1]))",
    "what it leaves": "class Last:\n    def __del__(self):\n        print('gone')\nlast = Last()",
}


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    return simulated_gpu.environment(2 << 30)


def both(line: list[str], environment: dict[str, str], folder: Path) -> list[tuple[int, str, str]]:
    """How it ends from a server, and by itself."""
    command = [sys.executable, *line]
    forked = fork_server.run(command, env=environment, cwd=folder)
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    alone = subprocess.run(command, env=environment, cwd=folder, **options)
    return [(done.returncode, done.stdout, done.stderr) for done in (forked, alone)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("way", ["text", "file", "module"])
def test_program_ends_as_by_itself(name: str, way: str, environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAMS[name])
    line = {"text": ["-c", PROGRAMS[name]], "file": ["program.py"], "module": ["-m", "program"]}[way]
    forked, alone = both([*line, "an argument"], environment, tmp_path)
    if way == "module":  # Python's own frames below a module's are no part of the program
        forked, alone = ((status, out, err[-60:]) for status, out, err in (forked, alone))
    assert forked == alone


def test_program_has_pytorch_from_the_start_and_a_gpu_of_its_own(environment: dict[str, str]) -> None:
    program = (
        "import sys; print('torch' in sys.modules)\nimport torch; print(torch.ones(1 << 20, device='cuda').device)"
    )
    for _ in range(2):
        assert fork_server.run([sys.executable, "-c", program], env=environment).stdout == "True\ncuda:0\n"


HANGING = "import subprocess, time; subprocess.Popen(['sleep', '1000']); print('on', flush=True); time.sleep(1000)"


def test_program_that_hangs_is_ended(environment: dict[str, str]) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        fork_server.run([sys.executable, "-c", HANGING], env=environment, timeout=1)


def test_program_ends_with_its_children_when_nobody_waits_for_it_any_more(environment: dict[str, str]) -> None:
    command = [fork_server.interpreter(), "-c", HANGING]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "on\n"
        process.kill()
        # It ends when nobody has the pipe.
        assert process.stdout.read() == ""


def test_interpreter_of_its_name_passes_on_streams_and_status(environment: dict[str, str], tmp_path: Path) -> None:
    command = [fork_server.interpreter(), "-c", "import os, sys; print(sys.stdin.read(), flush=True); os.abort()"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, input="read", capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-6, "read\n")


def test_nobody_is_left_when_the_one_that_started_them_has_ended(environment: dict[str, str]) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import fork_server, os\n"
        "assert fork_server.run([sys.executable, '-c', '']).returncode == 0"
    )
    own = {name: value for name, value in environment.items() if name != fork_server.NAME}
    # They have our standard error, too, so that this waits for all of them.
    command = [sys.executable, "-c", code, str(Path(fork_server.__file__).parent)]
    done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
