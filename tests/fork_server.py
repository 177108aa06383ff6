"""Runs Python programs of tests on the simulated GPU in processes that have PyTorch from the start.

To import it, and what its first optimizer imports, takes more than most of the programs do. So a process that has done
so, and nothing on the GPU, forks for each program. What libraries read as they are loaded is part of such a server's
environment: there is one for each such environment, started when it is first asked for. A broker has the servers of a
session, or of each of its workers: programs that start programs ask the same one. It ends with the process that has
started it, its servers once nobody waits for a program of theirs.

A program is as in a process of its own but for this: the server's modules are there from the start and outlive it, gc
does not look at them, and one frame of this file is below the program's first. So these are none for a server: tests of
an interpreter's start, its options, what is preloaded or shadows PyTorch, what is read while that is imported, what a
process itself takes, that nothing is printed as an interpreter ends (Triton's nanobind tells of what the server keeps),
a program that is signalled or talked with while it runs, and launchers, whose children start by themselves. On a real
GPU a program always has a process of its own.

As a script this file is the broker and its servers.
"""

from __future__ import annotations

import atexit
import builtins
import collections
import contextlib
import ctypes
import functools
import gc
import importlib.util
import io
import json
import os
import select
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

BINDINGS = Path(__file__).resolve().parents[1] / "bindings"
# Where the broker is found, by all that its programs start, too.
NAME = "FRUGAL_TEST_BROKER"
MOST_SERVERS = 4
MOST_BYTES = 1 << 18  # of a request
# What is read when a program asks for it, and so may differ among the programs of a server.
_READ_LATE = ("FRUGAL_ALLOC", "FRUGAL_FOLLOW", "FRUGAL_TEST_", "PYTEST_")
_ALSO_READ_LATE = {"CUDA_VISIBLE_DEVICES", "FRUGAL_START", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OLDPWD", "PWD"}
_ALSO_READ_LATE |= {"PYTHONPATH", "RANK", "SHLVL", "TORCHINDUCTOR_CACHE_DIR", "WORLD_SIZE", "_"}
_PRELOADED = (
    "torch",
    "torch._dynamo",
    "frugal_alloc._report.page",
    "frugal_alloc._tracking.tracker",
    "numpy",
    "pytest",
)


def run(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    timeout: float = 600,
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run(command, capture_output=True, text=True, ...)`` of a command that begins with sys.executable.

    At a timeout the program's process group is killed; its output goes to files, so nobody waits for who keeps it open.
    """
    environment = dict(os.environ if env is None else env)
    arguments = list(map(str, command))
    if not _can_be_forked(arguments, environment):
        return subprocess.run(arguments, env=environment, cwd=cwd, capture_output=True, text=True, timeout=timeout)
    environment[NAME] = _broker()
    with open(os.devnull) as nothing, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        streams = (nothing.fileno(), out.fileno(), err.fileno())
        try:
            status = _ask(arguments[1:], environment, str(cwd or os.getcwd()), streams, timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(arguments, timeout, _text(out), _text(err)) from None
        return subprocess.CompletedProcess(arguments, status, _text(out), _text(err))


@functools.cache
def interpreter() -> str:
    """A program that is as Python to who starts it, and has what it is to run run as above; a signal ends both."""
    folder = tempfile.mkdtemp(prefix="frugal-alloc-tests-")
    ours = os.getpid()
    # A child that this process forks has it registered, too.
    atexit.register(lambda: shutil.rmtree(folder) if os.getpid() == ours else None)
    path = Path(folder, "python")
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"import fork_server\nfork_server.forward({_broker()!r})\n"
    )
    path.chmod(0o700)
    return str(path)


def forward(broker: str) -> NoReturn:
    """Has this process's command line run in its environment, with its streams, and ends as that does."""
    os.environ[NAME] = broker
    command = [sys.executable, *sys.argv[1:]]
    if not _can_be_forked(command, os.environ):
        os.execv(sys.executable, command)
    status = _ask(command[1:], dict(os.environ), os.getcwd(), (0, 1, 2), None)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def are_alike(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether a process that is to have one of these environments can be forked from one that has the other."""
    return _read_at_load(one) == _read_at_load(other) and one.get("PYTHONPATH") == other.get("PYTHONPATH")


# Kept, since Python warns of a process that is forgotten while it runs.
_started: subprocess.Popen[bytes] | None = None


def _broker() -> str:
    """Starts one if this process has none, nor one above it."""
    global _started
    if NAME not in os.environ:
        os.environ[NAME] = f"frugal-alloc-tests-{os.getpid()}-{os.urandom(4).hex()}"
        found = importlib.util.find_spec("frugal_alloc")
        package = Path(found.origin).parents[1] if found is not None and found.origin else BINDINGS
        # Its end is how the broker sees ours.
        theirs, _ = os.pipe()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind("\0" + os.environ[NAME])
            listener.listen()
            _started = _start(["broker", str(listener.fileno()), str(theirs), str(package)], dict(os.environ))
        os.close(theirs)
    return os.environ[NAME]


def _start(arguments: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Arguments that are numbers are files that it is to have."""
    return subprocess.Popen(
        [sys.executable, __file__, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[int(argument) for argument in arguments if argument.isdecimal()],
    )


def _ask(
    arguments: list[str], environment: dict[str, str], folder: str, streams: tuple[int, ...], timeout: float | None
) -> int:
    """Returns the program's status as subprocess has it. Raises TimeoutError once the program has been killed."""
    request = {"arguments": arguments, "environment": environment, "folder": folder}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect("\0" + environment[NAME])
        socket.send_fds(connection, [json.dumps(request).encode()], streams)
        connection.settimeout(timeout)
        try:
            answer = connection.recv(MOST_BYTES)
        except TimeoutError:
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(None)
            connection.recv(MOST_BYTES)
            raise
    if not answer:
        raise RuntimeError("the server of programs has ended")
    return int(answer)


def _can_be_forked(command: list[str], environment: Mapping[str, str]) -> bool:
    kind = command[1] if len(command) > 1 else "-"
    has_options = kind.startswith("-") and kind not in ("-c", "-m")
    return "FRUGAL_SIM_MEMORY" in environment and command[0] == sys.executable and not has_options


def _read_at_load(environment: Mapping[str, str]) -> dict[str, str]:
    late = _ALSO_READ_LATE
    return {k: v for k, v in environment.items() if not k.startswith(_READ_LATE) and k not in late}


def _text(file: Any) -> str:
    file.seek(0)
    return file.read().decode(errors="backslashreplace").replace("\r\n", "\n")


# --- The broker's process.


class _Server(NamedTuple):
    process: subprocess.Popen[bytes]
    requests: socket.socket


def _serve_as_broker(listener: socket.socket, lifeline: int, package: str) -> None:
    """Hands each request on, with the connection that it came by, until nobody can have any more."""
    servers: collections.OrderedDict[str, _Server] = collections.OrderedDict()
    while lifeline not in select.select([listener, lifeline], [], [])[0]:
        with listener.accept()[0] as connection:
            _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            request, streams, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
            if user == os.getuid() and request:
                server = _server_for(json.loads(request)["environment"], servers, package)
                with contextlib.suppress(BrokenPipeError):  # it could not start, which has told why
                    socket.send_fds(server.requests, [request], [connection.fileno(), *streams])
            for stream in streams:
                os.close(stream)


def _server_for(environment: dict[str, str], servers: collections.OrderedDict[str, _Server], package: str) -> _Server:
    at_load = _read_at_load(environment)
    key = json.dumps(sorted(at_load.items()))
    server = servers.pop(key, None)
    if server is None or server.process.poll() is not None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            server = _Server(_start(["server", str(theirs.fileno()), package], at_load), ours)
    servers[key] = server
    if len(servers) > MOST_SERVERS:
        servers.popitem(last=False)[1].requests.close()
    return server


# --- A server's process.


class _Program(NamedTuple):
    code: types.CodeType
    variables: dict[str, Any]


class _Serving:
    """Forks for each request, says how the child ended, and ends its process group if who asked is no longer there."""

    def __init__(self, requests: socket.socket, search_path: list[str]) -> None:
        self._search_path = search_path
        self._events = selectors.PollSelector()
        self._events.register(requests, selectors.EVENT_READ, self._accept)
        self._running: dict[int, socket.socket] = {}

    def next_program(self) -> _Program:
        """Returns in a child alone."""
        while self._events.get_map():
            for key, _ in self._events.select():
                # An earlier event of the same round may have closed it.
                if self._events.get_map().get(key.fd) == key and (program := key.data(key.fileobj)) is not None:
                    return program
        os._exit(0)

    def _accept(self, requests: socket.socket) -> _Program | None:
        request, files, _, _ = socket.recv_fds(requests, MOST_BYTES, 4)
        if not request:
            self._events.unregister(requests)
            requests.close()
            return None
        connection, streams = socket.socket(fileno=files[0]), files[1:]
        child = os.fork()
        if child == 0:
            self._leave_to_parent(connection)
            return _become(json.loads(request), streams, self._search_path)
        for stream in streams:
            os.close(stream)
        self._running[child] = connection
        self._events.register(connection, selectors.EVENT_READ, lambda _: self._kill(child))
        self._events.register(os.pidfd_open(child), selectors.EVENT_READ, lambda ended: self._reap(child, ended))
        return None

    def _leave_to_parent(self, connection: socket.socket) -> None:
        os.setpgid(0, 0)
        for file in [key.fileobj for key in self._events.get_map().values()] + [connection]:
            os.close(file) if isinstance(file, int) else file.close()
        self._events.close()

    def _kill(self, child: int) -> None:
        self._events.unregister(self._running[child])
        # It may have no group yet, and it may have ended.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError):
                kill(child, signal.SIGKILL)

    def _reap(self, child: int, ended: int) -> None:
        self._events.unregister(ended)
        os.close(ended)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with self._running.pop(child) as connection:
            if connection.fileno() in self._events.get_map():
                self._events.unregister(connection)
            with contextlib.suppress(OSError):  # nobody waits for it
                connection.send(str(status).encode())


def _become(request: dict[str, Any], streams: list[int], search_path: list[str]) -> _Program:
    """What the interpreter does before a program's first line."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # One that nobody but the program holds, so that what it prints as it is taken apart is written, too.
    old = sys.stdout
    file = open(1, "wb", 0 if old.write_through else -1, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(file, old.encoding, old.errors, write_through=old.write_through)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    main = types.ModuleType("__main__")
    main.__dict__.update({"__builtins__": builtins, "__cached__": None})
    sys.modules["__main__"] = main
    kind, *rest = request["arguments"]
    sys.orig_argv[:] = [sys.executable, kind, *rest]
    sys.argv[:] = [kind, *(rest[1:] if kind in ("-c", "-m") else rest)]
    named = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    beside = {"-c": "", "-m": os.getcwd()}.get(kind, os.path.dirname(os.path.realpath(kind)))
    sys.path[:] = [beside, *named, *search_path]
    _hide_our_frame()
    if kind == "-c":
        code = compile(rest[0], "<string>", "exec")
    elif kind == "-m":
        code = _module(main, rest[0])
    else:
        main.__file__ = os.path.abspath(kind)
        code = compile(Path(kind).read_bytes(), main.__file__, "exec")
    if named:
        # Last, since what waits there for PyTorch is called at once.
        sys.modules.pop("sitecustomize", None)
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module("sitecustomize")
    return _Program(code, main.__dict__)


def _module(main: types.ModuleType, name: str) -> types.CodeType:
    spec = importlib.util.find_spec(name)
    if spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    sys.argv[0] = spec.origin
    main.__file__, main.__spec__, main.__package__, main.__loader__ = spec.origin, spec, spec.parent, spec.loader
    return spec.loader.get_code(spec.name)


def _hide_our_frame() -> None:
    """An error that ends the program is shown from the program's own first frame on."""
    show = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        show(kind, error.with_traceback(trace), trace)

    sys.excepthook = hook


def _preload(package: str) -> None:
    before = set(sys.modules)
    loaded: dict[str, types.ModuleType] = {}

    def keep() -> None:
        for name in loaded:
            sys.modules.pop(name, None)
        libc.fflush(None)

    # To take apart what is loaded here, at a program's end, would be most of what a small program takes. So both ends,
    # Python's and then C's, leave that out: these come behind all that a program registers there.
    libc = ctypes.CDLL(None)
    atexit.register(keep)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))
    sys.path.insert(0, package)
    for name in _PRELOADED:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    loaded.update({name: module for name, module in sys.modules.items() if name not in before})
    libc.on_exit(libc._exit, None)


def _serve(requests: socket.socket, package: str) -> _Program:
    search_path = sys.path[1:]
    _preload(package)
    gc.collect()
    # A child's first collection would copy the pages of all that it has from here.
    gc.freeze()
    return _Serving(requests, search_path).next_program()


if __name__ == "__main__":
    os.setpgid(0, 0)  # an interrupt of the terminal's is for who waits
    _socket = socket.socket(fileno=int(sys.argv[2]))
    if sys.argv[1] == "broker":
        _serve_as_broker(_socket, int(sys.argv[3]), sys.argv[4])
    else:
        # Down here, so that the interpreter ends as it does for any program; and nobody else holds what is its own.
        exec(*_serve(_socket, sys.argv[3]))
