"""The wheel that tools/wheel has built: FRUGAL_TEST_WHEEL names it, and tools/test builds one and sets it.

That of tools/test is for the torch that is installed alone, which FRUGAL_TEST_WHEEL_TORCH=beside says; that of
tools/test --thorough is for all.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from old_systems import ON_DEBIAN_12

ROOT = Path(__file__).resolve().parents[2]
WHEEL = os.environ.get("FRUGAL_TEST_WHEEL")
pytestmark = pytest.mark.skipif(WHEEL is None, reason="tools/test builds the wheel and sets FRUGAL_TEST_WHEEL")
SYMBOL = re.compile(r"([\w.$]+)(?:@+([\w.]+))?$")
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
    "cudaGetErrorString",
    "cudaGetLastError",
    "cudaIpcGetMemHandle",
    "cudaMemGetInfo",
    "cudaMemcpyAsync",
    "cudaMemcpyPeerAsync",
    "cudaStreamIsCapturing",
    "cudaStreamQuery",
    "cudaStreamSynchronize",
    "cudaStreamWaitEvent",
    "cudaThreadExchangeStreamCaptureMode",
}


def torch_versions() -> list[str]:
    lines = (ROOT / "tools" / "torch_versions.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


def built_for() -> list[str]:
    """The versions that the wheel is to hold libraries for."""
    if os.environ.get("FRUGAL_TEST_WHEEL_TORCH", "all") == "all":
        return torch_versions()
    installed = importlib.metadata.version("torch").split(".")[:2]
    return [version for version in torch_versions() if version.split(".")[:2] == installed]


def tag(version: str) -> str:
    return "torch" + "".join(version.split(".")[:2])


def symbols(library: Path, *options: str) -> list[tuple[str, str]]:
    """Names and versions of a library's dynamic symbols."""
    done = subprocess.run(["nm", "-D", *options, library], check=True, capture_output=True, text=True)
    found = (SYMBOL.match(line.split()[-1]) for line in done.stdout.splitlines())
    return [(match[1], match[2] or "") for match in found if match]


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
        f"frugal_{kind}_{tag(version)}.{suffix}"
        for version in built_for()
        for kind, suffix in (("alloc", "so"), ("replay", "so"), ("alloc", "json"))
    }
    assert {path.name for path in libraries.glob("frugal_*_torch*")} == expected


def test_holds_the_package_and_no_more(contents: Path) -> None:
    files = {path.relative_to(contents).as_posix() for path in contents.rglob("*") if path.is_file()}
    package = {path for path in files if path.startswith("frugal_alloc/")}
    assert {path for path in files - package if ".dist-info/" not in path} == set()
    assert {"frugal_alloc/__init__.py", "frugal_alloc/include/frugal_alloc/torch.h"} <= package
    assert {f"frugal_alloc/_lib/simulated_gpu/{name}" for name in ("libcuda.so.1", "libcudart.so.12")} <= package
    assert not [path for path in files if "__pycache__" in path or path.endswith(".pyc")]


def test_holds_what_draws_pages_and_names_the_plugin_of_pytest(contents: Path) -> None:
    report = contents / "frugal_alloc" / "_report"
    assert {"page.html.jinja", "pieces.html.jinja", "style.css", "page.js"} <= {path.name for path in report.iterdir()}
    fit = contents / "frugal_alloc" / "_fit" / "output"
    assert {"page.html.jinja", "pieces.html.jinja", "style.css"} <= {path.name for path in fit.iterdir()}
    pages = contents / "frugal_alloc" / "_pages"
    assert {"base.css", "document.css"} <= {path.name for path in pages.iterdir()}
    entry_points = next(contents.glob("*.dist-info/entry_points.txt")).read_text()
    assert "[pytest11]\nfrugal_alloc = frugal_alloc.pytest_plugin\n" in entry_points


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


@pytest.mark.parametrize("version", built_for())
@pytest.mark.parametrize("kind", ["alloc", "replay"])
def test_library_finds_its_symbols_in_its_own_torch(kind: str, version: str, libraries: Path) -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import torch_sdk
    finally:
        sys.path.pop(0)
    sdk = torch_sdk.torch(version)
    there = {name for library in ("libc10.so", "libc10_cuda.so") for name, _ in symbols(sdk / "lib" / library)}
    wanted = symbols(libraries / f"frugal_{kind}_{tag(version)}.so", "--undefined-only")
    c10 = {name for name, _ in wanted if "c10" in name}
    assert c10
    assert c10 <= there, c10 - there


@pytest.mark.parametrize("version", built_for())
def test_adapter_serves_cuda_12_and_13(version: str, libraries: Path) -> None:
    wanted = symbols(libraries / f"frugal_alloc_{tag(version)}.so", "--undefined-only")
    cuda = {(name, symbol_version) for name, symbol_version in wanted if re.match(r"cu[A-Z]|cuda", name)}
    # Without a version of CUDA's: the process's own runtime has them in its.
    assert {symbol_version for _, symbol_version in cuda} == {""}
    assert {name for name, _ in cuda} <= RUNTIME_FUNCTIONS
    text = subprocess.run(
        ["objdump", "-p", libraries / f"frugal_alloc_{tag(version)}.so"], check=True, capture_output=True, text=True
    ).stdout
    needed = set(re.findall(r"NEEDED +(\S+)", text))
    glibc = {"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}
    system = {"libstdc++.so.6", "libgcc_s.so.1"} | glibc
    assert needed - system == {"libc10.so", "libc10_cuda.so"}
    assert not re.search("RPATH|RUNPATH", text)


def test_tag_promises_no_older_glibc_than_the_libraries_need(libraries: Path) -> None:
    promised = re.search(r"-py3-none-manylinux_2_(\d+)_x86_64\.whl$", WHEEL)
    assert promised, WHEEL
    needed = [
        int(version.removeprefix("GLIBC_2.").split(".")[0])
        for library in libraries.rglob("*.so*")
        for _, version in symbols(library, "--undefined-only")
        if version.startswith("GLIBC_2.")
    ]
    # A wheel's name knows none older than torch's own.
    assert max(*needed, 28) == int(promised[1])


@ON_DEBIAN_12
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


def test_installed_it_says_that_the_recorded_runs_are_not_in_it(installed: Path) -> None:
    done = run(installed, "frugal-alloc", "replay", "gpt60")
    assert done.returncode == 2
    assert done.stderr.startswith("frugal-alloc")
    assert "gpt60" in done.stderr
    assert len(done.stderr.splitlines()) == 1
