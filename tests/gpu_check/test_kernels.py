"""The kernels compile for every GPU that the compiler in this torch's wheels knows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from frugal_alloc._command.doctor import kernels
from frugal_alloc._simulation import nvrtc_files
from gpu_check_run import environment, run
from hardware import kit

NEWER_THAN_ANY = (99, 0)
# The folders of what a process has loaded of NVRTC, after it has compiled.
COMPILE = """
import json, os
from frugal_alloc._command.doctor import kernels
kernels.Compiler().compile("__global__ void f() {}", "f.cu", (9, 0))
with open("/proc/self/maps") as maps:
    loaded = {line.split(maxsplit=5)[5].strip() for line in maps if "libnvrtc" in line}
print(json.dumps({os.path.basename(path).split(".")[0]: os.path.dirname(path) for path in loaded}))
"""


@pytest.fixture(scope="module")
def compiler() -> kernels.Compiler:
    try:
        return kernels.Compiler()
    except kernels.NvrtcError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (12, 0)])
def test_kernels_compile_to_the_machines_code(compiler: kernels.Compiler, capability: tuple[int, int]) -> None:
    files = [*kernels.SOURCES.glob("*.cu"), *kit.KERNELS.glob("*.cu")]
    assert len(files) == 4
    for file in files:
        assert compiler.compile(file.read_text(), file.name, capability).startswith(b"\x7fELF")


def test_gpu_that_is_newer_than_the_compiler_gets_ptx(compiler: kernels.Compiler) -> None:
    code = compiler.compile((kernels.SOURCES / "timing.cu").read_text(), "timing", NEWER_THAN_ANY)
    assert b".entry spin" in code


def test_what_does_not_compile_is_named(compiler: kernels.Compiler) -> None:
    with pytest.raises(kernels.NvrtcError, match=r"wrong\.cu does not compile for sm_90: .*undefined"):
        compiler.compile("__global__ void f() { undefined(); }", "wrong.cu", (9, 0))


def test_builtins_are_those_beside_the_compiler_whether_there_is_a_toolkit_or_not(compiler: kernels.Compiler) -> None:
    done = run(sys.executable, "-c", COMPILE, env=environment(LD_LIBRARY_PATH=""))
    assert done.status == 0, done.err
    folders = json.loads(done.out)
    assert folders["libnvrtc-builtins"] == folders["libnvrtc"]


@pytest.mark.parametrize("folder", ["lib", "targets/x86_64-linux/lib"])
def test_compiler_of_a_conda_environment_is_found(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / folder).mkdir(parents=True)
    for name in ("libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0"):
        (tmp_path / folder / name).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert str(tmp_path / folder / "libnvrtc.so.13") in kernels._in_packages()


def test_missing_compiler_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc_files, "find", lambda packages: ())
    monkeypatch.setattr(kernels, "_SYSTEM", ())
    with pytest.raises(kernels.NvrtcError, match="nvidia-cuda-nvrtc"):
        kernels.Compiler()
