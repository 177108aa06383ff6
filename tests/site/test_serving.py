"""`python tools/site --serve` shows the site until Ctrl-C, and says what is wrong with a port in one line."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(ROOT / "tools" / "site"), "--serve"]


def listening() -> socket.socket:
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.listen()
    return one


def refused(port: str) -> str:
    done = subprocess.run([*COMMAND, port], capture_output=True, text=True)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    return done.stderr


def test_a_port_that_another_program_has_is_refused_before_anything_is_built() -> None:
    pytest.importorskip("material", reason="tools/setup installs what builds the site")
    with listening() as other:
        port = other.getsockname()[1]
        assert refused(str(port)).endswith(f"port {port} cannot be used: Address already in use; see --help\n")


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "8_000"])
def test_what_is_no_port_is_refused(port: str) -> None:
    assert "argument --serve" in refused(port)


def test_ctrl_c_ends_it_without_a_traceback_and_leaves_no_files(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="tools/setup installs what builds the site")
    with listening() as free:
        port = free.getsockname()[1]
    command, environment = [*COMMAND, str(port)], {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = list(itertools.takewhile(lambda line: "Serving on" not in line, process.stderr))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html") as answer:
            page = answer.read().decode()
        process.send_signal(signal.SIGINT)
        said.append(process.stderr.read())
    assert process.returncode == 130, said
    assert "<article" in page
    assert "Traceback" not in "".join(said) and list(tmp_path.iterdir()) == []
