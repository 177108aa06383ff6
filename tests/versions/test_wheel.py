"""The wheel that tools/wheel has built: FRUGAL_TEST_WHEEL names it, and tools/test builds one and sets it.

That of tools/test is for the torch that is installed alone, which FRUGAL_TEST_WHEEL_TORCH=beside says; that of
tools/test --thorough is for all. FRUGAL_TEST_AARCH64_WHEEL names the one that tools/wheel --architecture aarch64 has
built beside it: it is looked at here, and .github/workflows/wheels.yml runs it on a machine that it is for.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from frugal_alloc._common import installation

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import torch_sdk  # noqa: E402
import wheel_tag  # noqa: E402

WHEEL = os.environ.get("FRUGAL_TEST_WHEEL")
OTHER_WHEEL = os.environ.get("FRUGAL_TEST_AARCH64_WHEEL")
pytestmark = pytest.mark.skipif(WHEEL is None, reason="tools/test builds the wheel and sets FRUGAL_TEST_WHEEL")
# In which library each was before it moved to libc.
HAVE_MOVED = {"dlsym@GLIBC_2.2.5": "libdl.so.2", "pthread_once@GLIBC_2.2.5": "libpthread.so.0"}
SYSTEMS = re.compile(r"lib(c|dl|gcc_s|m|pthread|stdc\+\+)\.so\.\d+|ld-linux-[\w-]+\.so\.\d")
# All that ours calls of the CUDA runtime. Each is declared in the same words by the cuda_runtime_api.h of CUDA 12.8 and
# of 13.0, so that one library serves both; look one up in both before you add it.
RUNTIME_FUNCTIONS = {
    "cudaDeviceCanAccessPeer",
    "cudaDeviceDisablePeerAccess",
    "cudaDeviceEnablePeerAccess",
    "cudaDeviceGetAttribute",
    "cudaDeviceGetStreamPriorityRange",
    "cudaDeviceSynchronize",
    "cudaEventCreateWithFlags",
    "cudaEventDestroy",
    "cudaEventElapsedTime",
    "cudaEventQuery",
    "cudaEventRecord",
    "cudaEventSynchronize",
    "cudaFree",
    "cudaGetErrorString",
    "cudaGetLastError",
    "cudaIpcGetMemHandle",
    "cudaMalloc",
    "cudaMemGetInfo",
    "cudaMemcpy",
    "cudaMemcpyAsync",
    "cudaMemcpyPeerAsync",
    "cudaStreamIsCapturing",
    "cudaStreamQuery",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
    "cudaThreadExchangeStreamCaptureMode",
}


@dataclasses.dataclass(frozen=True)
class Shared:
    """The libraries of a wheel, and what its name says of them."""

    glibc: int  # minor version
    architecture: str
    libraries: list[Path]


def built_for() -> list[str]:
    """The versions that the wheel is to hold libraries for."""
    if os.environ.get("FRUGAL_TEST_WHEEL_TORCH", "all") == "all":
        return list(torch_sdk.versions())
    installed = importlib.metadata.version("torch").split(".")[:2]
    return [version for version in torch_sdk.versions() if version.split(".")[:2] == installed]


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def libraries(contents: Path) -> Path:
    return contents / "frugal_alloc" / "_lib"


def test_holds_libraries_for_every_torch_that_it_is_for(libraries: Path) -> None:
    assert built_for()
    expected = {
        f"frugal_{kind}_{torch_sdk.tag(version)}.{suffix}"
        for version in built_for()
        for kind, suffix in (("alloc", "so"), ("replay", "so"), ("alloc", "json"))
    }
    assert {path.name for path in libraries.glob("frugal_*_torch*")} == expected


def test_holds_the_packages_and_no_more(contents: Path) -> None:
    files = {path.relative_to(contents).as_posix() for path in contents.rglob("*") if path.is_file()}
    packages = {path for path in files if path.startswith(("frugal_alloc/", "simulated_gpu/"))}
    assert {path for path in files - packages if ".dist-info/" not in path} == set()
    folders = (ROOT / "bindings" / "frugal_alloc", ROOT / "simulated_gpu" / "python" / "simulated_gpu")
    sources = {path.relative_to(folder.parent) for folder in folders for path in folder.rglob("*.*")}
    needed = {
        path.as_posix() for path in sources if path.suffix != ".md" and not {"_lib", "__pycache__"} & set(path.parts)
    }
    assert len(needed) > 100 and needed | {"frugal_alloc/include/frugal_alloc/torch.h"} <= packages
    assert {f"simulated_gpu/_lib/{name}" for name in ("libcuda.so.1", "libcudart.so.12")} <= packages
    assert not [path for path in files if "__pycache__" in path or path.endswith(".pyc")]


def test_names_its_plugins(contents: Path) -> None:
    entry_points = next(contents.glob("*.dist-info/entry_points.txt")).read_text()
    assert "[pytest11]\nfrugal_alloc = frugal_alloc.pytest_plugin\n" in entry_points
    assert "[vllm.general_plugins]\nfrugal_alloc = frugal_alloc.integrations.vllm:register\n" in entry_points


def test_holds_the_terms_that_its_metadata_names(contents: Path) -> None:
    metadata = next(contents.glob("*.dist-info/METADATA"))
    named = re.findall(r"^License-File: (.+)$", metadata.read_text(), re.MULTILINE)
    folder = metadata.parent / "licenses"
    assert {"LICENSE", "NOTICE"} <= set(named)
    assert set(named) == {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_record_names_every_file(contents: Path) -> None:
    record = next(contents.glob("*.dist-info/RECORD"))
    lines = dict(line.rsplit(",", 2)[:2] for line in record.read_text().splitlines())
    files = {path.relative_to(contents).as_posix(): path for path in contents.rglob("*") if path.is_file()}
    assert set(lines) == set(files)
    for name, path in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
        assert lines[name] == ("" if path == record else f"sha256={digest}"), name


def described(library: Path, *options: str) -> str:
    return subprocess.run(["readelf", "-W", *options, library], check=True, capture_output=True, text=True).stdout


def symbols(library: Path, *, undefined: bool) -> set[str]:
    """Names of its dynamic symbols: those that it asks for, or those that it has."""
    lines = [line.split() for line in described(library, "--dyn-syms").splitlines()]
    return {words[7] for words in lines if len(words) >= 8 and (words[6] == "UND") == undefined}


@pytest.fixture(scope="module", params=filter(None, [WHEEL, OTHER_WHEEL]))
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Shared:
    """The libraries of the wheel for each architecture."""
    folder = tmp_path_factory.mktemp("shared")
    with zipfile.ZipFile(request.param) as wheel:
        wheel.extractall(folder)
    tagged = re.search(r"-py3-none-manylinux_2_(\d+)_(x86_64|aarch64)\.whl$", request.param)
    assert tagged, request.param
    return Shared(int(tagged[1]), tagged[2], sorted(folder.rglob("*.so*")))


def test_each_library_is_for_the_architecture_of_the_name(shared: Shared) -> None:
    assert {installation.architecture_of(path) for path in shared.libraries} == {shared.architecture}


def test_tag_promises_no_older_system_than_the_libraries_need(shared: Shared) -> None:
    runtimes = wheel_tag.POLICIES[max(policy for policy in wheel_tag.POLICIES if policy <= shared.glibc)]
    allowed = {"GLIBC": f"2.{shared.glibc}"} | runtimes
    for path in shared.libraries:
        needs = described(path, "--version-info").partition("Version needs section")[2]
        for family, version in re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)", needs):
            assert wheel_tag._number(version) <= wheel_tag._number(allowed[family]), (path.name, family, version)


def test_libraries_name_what_their_functions_were_in_before_they_moved(shared: Shared) -> None:
    for path in shared.libraries:
        needed = re.findall(r"NEEDED.*\[(.+)\]", described(path, "--dynamic"))
        asked = symbols(path, undefined=True)
        assert [symbol for symbol, before in HAVE_MOVED.items() if symbol in asked and before not in needed] == []


def test_libraries_find_their_symbols_in_their_own_torch(shared: Shared) -> None:
    # C++ gives a function the same name on both architectures, and torch's own have the same functions.
    for version in built_for():
        lib = torch_sdk.torch(version) / "lib"
        there = {name.partition("@")[0] for one in ("libc10.so", "libc10_cuda.so") for name in defined(lib / one)}
        for path in shared.libraries:
            if path.stem.endswith(f"_{torch_sdk.tag(version)}"):
                c10 = {name for name in symbols(path, undefined=True) if "c10" in name}
                assert c10 and c10 <= there, (path.name, c10 - there)


def defined(library: Path) -> set[str]:
    return symbols(library, undefined=False)


def test_libraries_load_where_pages_have_64_kib(shared: Shared) -> None:
    for path in shared.libraries if shared.architecture == "aarch64" else ():
        loaded = [line for line in described(path, "--program-headers").splitlines() if line.split()[:1] == ["LOAD"]]
        assert loaded
        assert {int(line.split()[-1], 16) % (64 << 10) for line in loaded} == {0}, path.name


def test_adapters_need_torchs_libraries_and_the_systems_alone_and_serve_cuda_12_and_13(shared: Shared) -> None:
    adapters = [path for path in shared.libraries if path.name.startswith("frugal_alloc_torch")]
    assert adapters
    for path in adapters:
        text = described(path, "--dynamic")
        needed = set(re.findall(r"NEEDED.*\[(.+)\]", text))
        assert {name for name in needed if not SYSTEMS.fullmatch(name)} == {"libc10.so", "libc10_cuda.so"}
        assert not re.search("RPATH|RUNPATH", text)
        # Without a version of CUDA's: the process's own runtime has them in its.
        asked = symbols(path, undefined=True)
        assert {name for name in asked if re.match(r"cu[A-Z]|cuda", name)} <= RUNTIME_FUNCTIONS


@pytest.mark.skipif(OTHER_WHEEL is None, reason="FRUGAL_TEST_AARCH64_WHEEL names no wheel for AArch64")
def test_both_architectures_have_the_same_files() -> None:
    with zipfile.ZipFile(WHEEL) as ours, zipfile.ZipFile(OTHER_WHEEL) as other:
        assert set(ours.namelist()) == set(other.namelist())


def is_debian_12() -> bool:
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return False
    return (system.get("ID"), system.get("VERSION_ID")) == ("debian", "12")


# .github/workflows/wheels.yml builds releases there. Compilers and C++ libraries of newer systems ask for more.
@pytest.mark.skipif(not is_debian_12(), reason="releases are built on Debian 12")
def test_on_the_system_that_releases_are_built_on_the_tag_is_as_old_as_that_of_torch() -> None:
    assert WHEEL.endswith("-py3-none-manylinux_2_28_x86_64.whl")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel, installed with neither network nor compiler, beside this one's torch."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", WHEEL]
    subprocess.run(pip, env={"PATH": str(folder / "bin")}, check=True)
    # torch and what it needs, which a user has installed, but not this checkout's frugal_alloc.
    others = Path(importlib.util.find_spec("torch").submodule_search_locations[0]).parent
    site = next(folder.glob("lib/python3*/site-packages"))
    for path in others.iterdir():
        if not (site / path.name).exists() and "frugal" not in path.name:
            (site / path.name).symlink_to(path)
    return folder


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess:
    environment = {"PATH": str(folder / "bin"), "HOME": str(folder)}
    program = folder / "bin" / command[0]
    return subprocess.run([program, *command[1:]], env=environment, cwd=folder, capture_output=True, text=True)


def test_installed_without_compiler_and_network_it_works(installed: Path) -> None:
    first_minutes = ROOT / "tests" / "versions" / "first_minutes.py"
    done = run(installed, "frugal-alloc", "simulate", "--memory", "4GiB", "--", "python", first_minutes)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip().endswith("all is well")


def test_installed_the_demo_tells_the_lines_of_its_programs(installed: Path) -> None:
    done = run(installed, "frugal-alloc", "demo")
    assert done.returncode == 0, done.stderr
    assert "MiB at programs/too_large.py:22 in <module>" in done.stdout
    assert "1. leak  programs/leaking.py:19" in done.stdout


def test_installed_it_says_that_the_recorded_runs_are_not_in_it(installed: Path) -> None:
    done = run(installed, "frugal-alloc", "replay", "gpt60")
    assert done.returncode == 2
    assert done.stderr.startswith("frugal-alloc")
    assert "gpt60" in done.stderr
    assert len(done.stderr.splitlines()) == 1
