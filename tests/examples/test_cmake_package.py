"""What find_package(frugal_alloc) says, with LibTorch folders that are made up."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import frugal_alloc
import pytest
from frugal_alloc._common import installation

PACKAGE, *_TORCH = frugal_alloc.cmake_prefix_path.split(";")
# No language: nothing is compiled.
PROJECT = """
cmake_minimum_required(VERSION 3.18)
project(user LANGUAGES NONE)
find_package(frugal_alloc {arguments} REQUIRED)
get_target_property(linked frugal_alloc::torch INTERFACE_LINK_LIBRARIES)
get_target_property(location frugal_alloc::library IMPORTED_LOCATION)
get_target_property(headers frugal_alloc::library INTERFACE_INCLUDE_DIRECTORIES)
message(STATUS "version=${{frugal_alloc_VERSION}} location=${{location}} headers=${{headers}}")
"""


@pytest.fixture
def torch(tmp_path: Path):
    """Makes a folder like LibTorch's, of any version."""

    def make(version: str, cuda: bool = True) -> Path:
        folder = tmp_path / "libtorch"
        (folder / "lib").mkdir(parents=True)
        (folder / "share" / "cmake" / "Torch").mkdir(parents=True)
        for name in ("torch", "torch_cpu", "c10") + (("torch_cuda", "c10_cuda") if cuda else ()):
            (folder / "lib" / f"lib{name}.so").touch()
        text = f'set(PACKAGE_VERSION "{version}")\n'
        (folder / "share" / "cmake" / "Torch" / "TorchConfigVersion.cmake").write_text(text)
        return folder

    return make


@pytest.fixture
def configure(tmp_path: Path):
    def carry_out(*prefixes: Path | str, arguments: str = "") -> subprocess.CompletedProcess[str]:
        source = tmp_path / "user"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(PROJECT.format(arguments=arguments))
        path = ";".join(map(str, (*prefixes, PACKAGE)))
        command = ["cmake", "-S", source, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={path}"]
        return subprocess.run(command, capture_output=True, text=True)

    return carry_out


def built_version() -> str:
    folder = Path(frugal_alloc.__file__).parent / "_lib"
    tag = sorted(folder.glob("frugal_alloc_torch*.so"))[0].stem.removeprefix("frugal_alloc_torch")
    return f"{tag[0]}.{tag[1:]}"


def one_line(text: str) -> str:
    """CMake breaks lines."""
    return " ".join(text.split())


@pytest.mark.parametrize("below", ["", "share/cmake"])
def test_finds_library_and_header_for_the_libtorch_that_is_found(configure, torch, below):
    version = built_version()
    done = configure(torch(f"{version}.1+cu130") / below)
    assert done.returncode == 0, done.stderr
    said = dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)
    assert said["version"] == frugal_alloc.__version__
    assert os.path.basename(said["location"]) == f"frugal_alloc_torch{version.replace('.', '')}.so"
    assert Path(said["location"]).is_file()
    assert (Path(said["headers"]) / "frugal_alloc" / "torch.h").is_file()


def test_a_minor_version_that_is_not_known_is_refused(configure, torch):
    done = configure(torch("2.4.0"))
    assert done.returncode != 0
    assert "frugal_alloc has no library for LibTorch 2.4.0 in" in one_line(done.stderr)
    built = re.search(r"\(built for: ([^)]*)\)", one_line(done.stderr))
    assert built_version() in built[1].split(", ")


def test_a_libtorch_without_cuda_is_refused(configure, torch):
    done = configure(torch(f"{built_version()}.0+cpu", cuda=False))
    assert done.returncode != 0
    assert "is built for the CPU only" in one_line(done.stderr)


def test_prefix_path_of_the_package_names_the_torch_that_python_has(configure):
    done = configure(*_TORCH)
    assert done.returncode == 0, done.stderr
    assert [Path(folder) for folder in _TORCH] == [installation.find_torch().folder / "share" / "cmake"]


def test_a_libtorch_that_is_named_first_goes_before_the_one_of_python(configure, torch):
    done = configure(torch("2.4.0"), PACKAGE, *_TORCH)
    assert "frugal_alloc has no library for LibTorch 2.4.0 in" in one_line(done.stderr)


def test_without_a_torch_the_prefix_path_is_the_package_alone(monkeypatch):
    def find_none():
        raise installation.MissingPart("PyTorch is not installed here; pip install torch")

    monkeypatch.setattr(installation, "find_torch", find_none)
    assert frugal_alloc.cmake_prefix_path == PACKAGE


def test_says_where_to_name_libtorch_if_there_is_none(configure):
    done = configure()
    if done.returncode == 0:
        pytest.skip("there is a LibTorch beside the package")
    assert "LibTorch was not found" in one_line(done.stderr)
    assert "CMAKE_PREFIX_PATH" in one_line(done.stderr)


def test_a_newer_frugal_alloc_than_this_one_is_not_found(configure, torch):
    done = configure(torch(built_version()), arguments="99.0")
    assert done.returncode != 0
    assert "99.0" in done.stderr
