"""Builds the package's libraries: with Bazel, or with CMake where there is no Bazel that reads our WORKSPACE.

Each torch minor version has libraries of its own. They are built for the torch that is installed beside the Python
that runs this, whose headers are taken as they are, or for all of tools/torch_versions.txt, of which
tools/torch_sdk.py fetches the headers.

On x86-64 Bazel builds them for AArch64, too: the headers of all torches are the same there.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import torch_sdk

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bindings" / "frugal_alloc"
SIMULATED_GPU = ROOT / "simulated_gpu" / "python" / "simulated_gpu"
PACKAGES = (PACKAGE, SIMULATED_GPU)
LIBRARIES = "_lib"  # in each package
OLDEST_GLIBC = (2, 28)  # that there are wheels of torch for
TARGET = "//:package_libraries"
# What is cross-compiled, from which machine, and with which compiler (.bazelrc's configuration of that name).
CROSS_COMPILED = {"aarch64": ("x86_64", "aarch64-linux-gnu-g++")}
TORCH_SDK_MACHINE = "x86_64"  # which tools/torch_sdk.py fetches torch's libraries for
BAZEL = shlex.split(os.environ.get("BAZEL", "bazel"))

sys.path.insert(0, str(PACKAGE.parent))
# What the package itself looks at when it picks among the libraries.
from frugal_alloc._common import installation  # noqa: E402

Files = dict[str, bytes]  # by path in a wheel


@dataclasses.dataclass(frozen=True)
class Torch:
    """A torch to build for."""

    folder: pathlib.Path  # with include/, lib/ and version.py
    version: str
    # The one that is installed here; else a folder of tools/torch_sdk.py.
    installed: bool

    @property
    def tag(self) -> str:
        return torch_sdk.tag(self.version)

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


class BuildError(Exception):
    """The message is one line that says what to do."""


def machine() -> str:
    """The architecture of this machine."""
    return os.uname().machine


def check_machine(architecture: str | None = None) -> None:
    """Raises BuildError where there can be no library of ours, or something is missing that pip does not bring.

    Args:
        architecture: What to build for; left out: this machine.
    """
    try:
        installation.check_platform()
    except installation.MissingPart as error:
        raise BuildError(str(error)) from None
    if architecture not in (None, machine()):
        _check_cross_compiler(architecture)
        return
    version = installation.glibc_version()
    if version < OLDEST_GLIBC and beside() is None:
        raise BuildError(
            f"this system has glibc {'.'.join(map(str, version))}, and PyTorch's wheels, as ours, are for "
            f"{'.'.join(map(str, OLDEST_GLIBC))} or newer: use a newer system, or install a PyTorch that was built for "
            "this one first"
        )
    if has_bazel():  # it names what it misses
        return
    compilers = (*shlex.split(os.environ.get("CXX", ""))[:1], "c++", "g++", "clang++")
    if not any(map(shutil.which, compilers)):
        raise BuildError(
            "there is no C++ compiler to build with: install one for C++20, such as g++ 12, or set CXX to it; nothing "
            "is built where pip finds a wheel for this machine"
        )


def _check_cross_compiler(architecture: str) -> None:
    if architecture not in installation.ARCHITECTURES:
        known = ", ".join(installation.ARCHITECTURES)
        raise BuildError(f"there are no libraries for {architecture}; ask for one of {known}")
    builder, compiler = CROSS_COMPILED.get(architecture, (architecture, ""))
    if builder != machine():
        raise BuildError(f"libraries for {architecture} are built on {builder}, and this is {machine()}")
    if not has_bazel():
        raise BuildError(f"building for {architecture} on {builder} needs Bazel 4; run tools/setup --{architecture}")
    if shutil.which(compiler) is None:
        raise BuildError(f"there is no {compiler} to build for {architecture} with; run tools/setup --{architecture}")


def beside() -> Torch | None:
    """The torch that is installed in the environment of this Python, if any.

    Raises:
        BuildError: it is of a minor version that this source was never built for.
    """
    # -E: pip isolates builds by way of PYTHONPATH; the torch meant is the installing environment's own.
    code = (
        "import importlib.util, runpy\n"
        "folder = importlib.util.find_spec('torch').submodule_search_locations[0]\n"
        "print(folder, runpy.run_path(folder + '/version.py')['__version__'], sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-E", "-c", code], capture_output=True, text=True)
    if done.returncode:
        return None
    folder, version = done.stdout.splitlines()
    torch = Torch(pathlib.Path(folder), version, installed=True)
    known = [known.rpartition(".")[0] for known in torch_sdk.versions()]
    if torch.minor not in known:
        raise BuildError(
            f"{sys.executable} has torch {version}, and frugal_alloc is for {', '.join(known)}; "
            "docs/compatibility.md says how to add one"
        )
    return torch


def everyone() -> list[Torch]:
    """All that tools/torch_versions.txt lists.

    Raises:
        BuildError: this machine is none that links with what tools/torch_sdk.py fetches.
    """
    if machine() != TORCH_SDK_MACHINE:
        raise BuildError(
            f"on {machine()} there is nothing to link with for a torch that is not installed: install torch first, or "
            f"build on {TORCH_SDK_MACHINE} with tools/wheel --architecture {machine()}"
        )
    return [Torch(torch_sdk.torch(version), version, installed=False) for version in torch_sdk.versions()]


def build(torches: list[Torch], source: pathlib.Path, architecture: str | None = None) -> Files:
    """The libraries for these, just built, and what each was built for.

    Args:
        torches: None of them installed where the architecture is another than this machine's.
        source: Abseil's, as tools/abseil.py has it.
        architecture: As of check_machine().
    """
    files: Files = {}
    if has_bazel():
        for torch in torches:
            files |= _read(_built_by_bazel(torch, _cross_options(architecture)))
    else:
        files |= _read(_built_by_cmake(torches, source))
    for torch in torches:
        built_for = {"torch": torch.version, "headers": installation.headers_digest(torch.folder)}
        files[_packed(PACKAGE, f"frugal_alloc_{torch.tag}.json")] = (json.dumps(built_for) + "\n").encode()
    return files


def place(files: Files) -> None:
    """Puts the libraries into the checkout, each in one step, since a running program may have it loaded."""
    folders = {package.name: package.parent for package in PACKAGES}
    for name, data in files.items():
        target = folders[name.partition("/")[0]] / name
        if target.exists() and target.read_bytes() == data:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as near:
            new = pathlib.Path(near) / target.name
            new.write_bytes(data)
            new.chmod(0o755 if ".so" in target.name else 0o644)
            os.replace(new, target)
        print(f"built {target.relative_to(ROOT)}")
    for old in (SIMULATED_GPU / LIBRARIES).glob("*.so*"):
        if _packed(SIMULATED_GPU, old.name) not in files:
            old.unlink()


def has_bazel() -> bool:
    """Whether there is a Bazel that reads a WORKSPACE file; Debian's 4.2.3 calls itself no_version."""
    if shutil.which(BAZEL[0]) is None:
        return False
    done = subprocess.run([*BAZEL, "--version"], cwd=ROOT, capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.removeprefix("bazel ").startswith(("no_version", "4."))


def _packed(package: pathlib.Path, name: str) -> str:
    """The path of a library in a wheel."""
    return f"{package.name}/{LIBRARIES}/{name}"


def _read(built: dict[str, pathlib.Path]) -> Files:
    return {name: path.read_bytes() for name, path in built.items()}


def _cross_options(architecture: str | None) -> list[str]:
    """Bazel's options that build for this architecture."""
    if architecture in (None, machine()):
        return []
    return [f"--config={architecture}", f"--repo_env=FRUGAL_TORCH_LIBRARIES={_names_to_link(architecture)}"]


def _names_to_link(architecture: str) -> pathlib.Path:
    """A folder with a libc10 and a libc10_cuda that have nothing but their names, all that ours keep of them.

    The package index has no CUDA build of every torch for every architecture; PyTorch's own has.
    """
    folder = torch_sdk.CACHE / "names-to-link" / architecture
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("libc10.so", "libc10_cuda.so"):
        with tempfile.TemporaryDirectory(dir=folder) as near:
            library = pathlib.Path(near) / name
            options = ["-shared", "-nostdlib", f"-Wl,-soname,{name}", "-o", library, "-x", "c", "/dev/null"]
            if subprocess.run([CROSS_COMPILED[architecture][1], *options]).returncode:
                raise BuildError(f"{CROSS_COMPILED[architecture][1]} makes no library; its messages are above")
            os.replace(library, folder / name)
    return folder


def _bazel(torch: Torch, command: str, *arguments: str) -> str:
    """Bazel's standard output; what it tells people goes on to ours."""
    options = [] if sys.stderr.isatty() else ["--noshow_progress", "--ui_event_filters=-info"]
    if not torch.installed:
        options.append(f"--repo_env=FRUGAL_TORCH_SDK={torch.folder}")
        options.append(f"--repo_env=CUDA_HOME={torch_sdk.cuda_headers()}")
    # For the checkout's own .venv Bazel finds the way itself, and keeps what it knows from other builds.
    elif pathlib.Path(sys.prefix) != ROOT / ".venv":
        options.append(f"--repo_env=FRUGAL_PYTHON={sys.executable}")
        options.append(f"--repo_env=CUDA_HOME={torch_sdk.cuda_headers(torch.folder.parent)}")
    done = subprocess.run([*BAZEL, command, *options, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise BuildError(f"bazel {command} failed for torch {torch.version}; its messages are above")
    return done.stdout


def _built_by_bazel(torch: Torch, options: list[str]) -> dict[str, pathlib.Path]:
    _bazel(torch, "build", *options, "--show_result=0", TARGET)
    expression = "'\\n'.join([file.path for file in target.files.to_list()])"
    listed = _bazel(torch, "cquery", *options, TARGET, "--output=starlark", f"--starlark:expr={expression}")
    execution_root = pathlib.Path(_bazel(torch, "info", "execution_root").strip())
    built = {}
    for path in map(pathlib.PurePosixPath, listed.split()):
        package = SIMULATED_GPU if "/simulated_gpu/" in f"/{path}" else PACKAGE
        built[_packed(package, path.name)] = execution_root / path
    return built


def missing_tools() -> list[str]:
    """What the package index has to bring for a build on this machine, by the names that pip knows."""
    if has_bazel():
        return []
    missing = [] if shutil.which("cmake") else ["cmake"]
    # A compiler's package does not bring make along.
    return missing if shutil.which("make") or shutil.which("ninja") else [*missing, "ninja"]


def _built_by_cmake(torches: list[Torch], source: pathlib.Path) -> dict[str, pathlib.Path]:
    if missing := missing_tools():
        raise BuildError(
            f"CMake or what it runs is not here; pip install {' '.join(missing)}, or install a built wheel"
        )
    site = torches[0].folder.parent if torches[0].installed else None
    folder = ROOT / "build" / "cmake"
    values = {
        "CMAKE_BUILD_TYPE": "Release",
        "TORCHES": ";".join(str(torch.folder) for torch in torches),
        "CUDA": torch_sdk.cuda_headers(site),
        "ABSEIL": source,
    }
    generator = [] if shutil.which("make") else ["-G", "Ninja"]
    configure = [
        "cmake",
        *generator,
        "-S",
        ROOT,
        "-B",
        folder,
        *(f"-D{name}={value}" for name, value in values.items()),
    ]
    for command in (configure, ["cmake", "--build", folder, "--parallel", str(os.cpu_count())]):
        if subprocess.run(command).returncode:
            raise BuildError("cmake failed; its messages are above")
    names = "|".join(["preload", *(torch.tag for torch in torches)])
    ours = [path for path in folder.glob("*.so") if re.fullmatch(rf"frugal_\w+_({names})\.so", path.name)]
    simulated = (folder / "simulated_gpu").iterdir()
    return {_packed(PACKAGE, path.name): path for path in ours} | {
        _packed(SIMULATED_GPU, path.name): path for path in simulated
    }
